"""One rule for every setting: command line > ``MOTIONKIT_*`` > ``--config`` files > preset > defaults.

`resolve_layers` is the one pass that applies it: it picks the plugins, makes one model of all settings, lays the values
of the layers over the defaults, and validates the result once. It returns `Resolved`, where each value has its origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, SerializerFunctionWrapHandler, ValidationError, model_serializer, model_validator

from motionkit import plugins
from motionkit.config._code import code_in, groups
from motionkit.config._layer import Foreign, Layer
from motionkit.config._picks import Picks, owners_of
from motionkit.config._problems import Problem, SettingsError, from_validation, which_setting
from motionkit.config._slots import Chosen, Group, slots_of
from motionkit.config._tree import at_or_above, default_table, dotted, flat, from_text, leaves, put
from motionkit.documents import value_at
from motionkit.errors import MotionkitError

S = TypeVar("S", bound="Settings")


class Settings(Group):
    """Settings of a command: a group whose fields may be slots, see `slot`.

    In Python a slot takes a `Chosen`, a name (``"tmr-dense"``, ``"physics=0.1"``), or a table as in a file.

    Example:
        >>> from motionkit.config import Chosen, Settings, slots
        >>> class Ask(Settings):
        ...     reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",))
        >>> [(chosen.name, chosen.weight) for chosen in Ask(reward="tmr-dense,physics=0.1").reward]
        [('tmr-dense', 1.0), ('physics', 0.1)]
    """

    @model_validator(mode="before")
    @classmethod
    def _choose(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not slots_of(cls):
            return data
        return dict(resolve_layers(cls, [Layer("Python", data, from_file=True)]).settings)

    @classmethod
    def preset_of(cls, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Layer | None:
        """Return the values that replace defaults, if any: a layer with `Layer.off`.

        Args:
            given: Values of files, variables and the command line by field name, not yet validated.
            options: Options models of the chosen plugins, by the slot's name.
        """
        return None

    @classmethod
    def inherited(cls, layers: Sequence[Layer], typed: Mapping[str, Sequence[str]]) -> Layer | None:
        """Return settings that follow from an input on the command line, such as a run; user input wins over them.

        Args:
            layers: Files, variables and the choices of the command line, lowest first.
            typed: The command line's options, each with its values.
        """
        return None

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a run, ``config.json``, with the meaning they had when they were recorded.

        A setting that was added later is filled in if its default differs from what the run did.
        """
        return table

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Translate a settings file of another tool.

        Returns:
            Its values by their names here; None for a file of motionkit.
        """
        return None

    @classmethod
    def is_foreign(cls, key: str) -> bool:
        """Whether a dotted key is another tool's, so that ``--set`` accepts it.

        If a file of that tool is given, such values replace those of the file before it is translated.
        """
        return False

    @classmethod
    def translate_sets(cls, sets: Mapping[str, Any]) -> Foreign:
        """Translate dotted keys of another tool that were typed without a file of that tool.

        Args:
            sets: Values by dotted key, all of them `is_foreign`.
        """
        raise NotImplementedError

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        table: dict[str, Any] = write(self)
        for name, slot in slots_of(type(self)).items():
            value = getattr(self, name)
            table[name] = slot.write(value)
            if slot.spread:
                table |= value.options.model_dump(mode="json")
        return table


@dataclass(frozen=True)
class Resolved(Generic[S]):
    """Settings and the origin of each of them."""

    settings: S  # The validated model
    # Dotted key to ``default``, ``preset gpu``, ``command line``, ``environment MOTIONKIT_X`` or a file's path.
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()  # Oddities that are not errors
    notes: tuple[str, ...] = ()  # Automatic decisions
    # Dotted keys that files, variables or the command line set; False if the value is from a file.
    given: Mapping[str, bool] = field(default_factory=dict)
    code: frozenset[str] = frozenset()  # Python files and options that run code, all of them typed; see `Layer.code`

    def snapshot(self) -> dict[str, Any]:
        """Return the settings as nested JSON-able tables, which `resolve` accepts as a file."""
        return self.settings.model_dump(mode="json")

    def rows(self) -> list[tuple[str, Any, str]]:
        """Return key, value and origin of every setting, in the order of declaration."""
        return [(key, value, self.origins.get(key, "default")) for key, value in _flat(self.snapshot(), self.origins)]


def concrete(model: type[BaseModel], layers: Sequence[Layer], typed: Sequence[str] = ()) -> type[BaseModel]:
    """Return `model` with the options of the plugins that `layers` choose in place of its slots.

    A plugin that cannot be used is left out, and `resolve_layers` raises its error.

    Args:
        model: Settings model.
        layers: User input, lowest first.
        typed: Words of the command line whose flags are not in `layers` yet.
    """
    return Picks(model, layers, typed).model


def resolve_layers(model: type[S], layers: Sequence[Layer], *, command: str = "") -> Resolved[S]:
    """Choose plugins, merge the defaults and the layers, and validate the result.

    Args:
        model: Settings model.
        layers: User input, lowest first.
        command: Name of the command, for the hint in errors.

    Raises:
        MotionkitError: A plugin cannot be used.
        SettingsError: One or several settings are wrong; all of them are named, with their origins.
    """
    merged = _Merged(model, layers)
    preset = merged.preset(model)
    for layer in layers if preset is None else (preset, *layers):
        for path, declared, value in flat(merged.model, merged.table(layer)):
            key = ".".join(path)
            if declared is None:
                merged.unknown(path, value, layer)
                continue
            put(merged.values, path, from_text(declared.annotation, value))
            merged.origins[key] = layer.origin_of(path)
            if layer is not preset:  # no file holds a group as an object: it was made in Python
                merged.given[key] = layer.typed or isinstance(value, BaseModel)
    values: dict[str, Any] = {}
    try:
        validated = merged.model.model_validate(merged.values)
        if not merged.errors:
            values = merged.settings(validated)
            merged.check_idle(validated)
            merged.check_code(validated, values)
    except ValidationError as error:
        merged.problems += from_validation(error, merged.origins)
    merged.refuse(command)
    merged.finish(preset)
    return Resolved(
        cast(S, model.model_construct(**values)),
        merged.origins,
        (*(text for layer in layers for text in layer.warnings), *merged.warnings),
        (*(text for layer in layers for text in layer.notes), *merged.notes),
        merged.given,
        frozenset(merged.code),
    )


class _Merged(Picks):
    """The values of the layers over the defaults, with their origins, and what is wrong with them."""

    def __init__(self, declared: type[Settings], layers: Sequence[Layer]) -> None:
        super().__init__(declared, layers)
        self.leaves = {leaf.key: leaf for leaf in leaves(self.model)}
        self.values = default_table(self.model)
        self.origins = dict.fromkeys(self.leaves, "default")
        self.given: dict[str, bool] = {}
        self.code: set[str] = set()  # Typed options and Python files that run code

    def preset(self, declared: type[Settings]) -> Layer | None:
        """Return the preset for what was given and picked, if any."""
        given: dict[str, Any] = {}
        for layer in self.layers:
            given |= layer.table
        options: dict[str, list[type[BaseModel]]] = {}
        for name, picks in self.of.items():
            with suppress(MotionkitError):  # an unusable plugin is among the errors already
                options[name] = [pick.options for pick in picks]
        return declared.preset_of(given, options)

    def unknown(self, path: tuple[str, ...], value: Any, layer: Layer) -> None:
        """Refuse a key that no setting has, or warn of it if it is an option of a plugin that was picked before."""
        key, origin, fix = ".".join(path), layer.origin_of(path), ""
        for name, slot in self.slots.items():
            if slot.spread and (owners := owners_of(slot, path)):
                if not self.belongs(name, layer):
                    if slot.split(layer.table.get(name))[0] is None:
                        self.warn_idle(name, key, origin)
                    return
                fix = f"it is an option of {name} {' and '.join(owners)}: {dotted((name,))} {' or '.join(owners)}"
        shown = "" if isinstance(value, Mapping) else repr(value)
        self.problems.append(Problem(key, "unknown setting", origin, shown, fix or which_setting(key, self.leaves)))

    def settings(self, validated: BaseModel) -> dict[str, Any]:
        """Return the values of the declared model's fields.

        Raises:
            ValidationError: Groups of a spread plugin do not fit each other.
        """
        values = dict(validated)
        for name in (name for name, slot in self.slots.items() if slot.spread):
            (pick,) = self.of[name]
            parts = {part: values[part] for part in pick.options.model_fields}
            values[name] = pick.chosen(pick.options.model_validate(parts))
        return values

    def check_idle(self, settings: BaseModel) -> None:
        """Refuse options without effect that differ from their default, and note those that were typed with it."""
        why = {
            f"{start}.{option}" if start else option: reason
            for start, group, _ in groups(settings)
            for option, reason in group.idle().items()
        }
        for key in (key for key in self.leaves if key in why):
            value, origin = _value_at(settings, self.leaves[key].path), self.origins[key]
            if value != self.leaves[key].default:
                self.problems.append(Problem(key, f"has no effect: {why[key]}", origin, repr(value)))
            elif origin == "command line":  # a run's config.json holds every option
                self.notes.append(f"{key} has no effect: {why[key]}")

    def check_code(self, settings: BaseModel, values: Mapping[str, Any]) -> None:
        """Refuse values that run code and come from a file, of every group and plugin."""
        marks = {text for layer in self.layers for text in layer.code or ()}
        typed, found = dict(self.given), [*code_in(settings)]
        for name, slot in self.slots.items():
            for pick in self.of[name]:
                if pick.given is not None:  # a plugin with its options, from Python
                    typed[f"{name}.{pick.name}" if slot.many else name] = True
            if slot.spread:  # its groups are among those of the settings
                found += code_in(values[name].options, plugin=True)
        for one in {one.key: one for one in reversed(found)}.values():
            mark = f"{one.key}={one.value}"
            if at_or_above(typed, one.key) or mark in marks:  # the setting, or the table or plugin that holds it
                self.code.add(mark)
            else:
                origin = self.origins.get(one.key, "default")
                fix = f"if you trust it, add to the command: {one.words}"
                message = f"counts only where it is typed: {one.why.rstrip('.')}"
                self.problems.append(Problem(one.key, message, origin, repr(one.value), fix))

    def refuse(self, command: str) -> None:
        """Raise the error of a plugin, or one error with all problems."""
        if self.errors and not self.problems:
            raise self.errors[0]
        for message, cause in {cause.message: cause for cause in self.errors}.items():
            self.problems.append(Problem(message, cause.why or cause.fix, fix=cause.fix if cause.why else ""))
        if self.problems:
            typed = [layer.table for layer in self.layers if layer.by_flag]
            flags = {
                key: leaf.flag
                for key, leaf in self.leaves.items()
                if any(value_at(table, *leaf.path) is not None for table in typed)
            }
            raise SettingsError(
                [replace(problem, flag=flags.get(problem.key, "")) for problem in self.problems], command
            )

    def finish(self, preset: Layer | None) -> None:
        """Add the origins of the plugins and of their weights, and the note on a preset."""
        for name, slot in self.slots.items():
            for pick in self.of[name]:
                part = f".{pick.name}.weight" if slot.many else "" if slot.spread else ".name"
                self.origins[name + part] = pick.weight_origin if slot.many else pick.origin
                if plugins.is_file(pick.name):
                    self.code.add(pick.name)
        if preset and (kept := [key for key in preset.keys if self.origins[key] == preset.name]):
            shown = ", ".join(f"{key} {value_at(preset.table, *key.split('.'))}" for key in kept)
            self.notes.append(f"{preset.name}: {shown}; {preset.off}")


def _value_at(value: Any, path: Sequence[str]) -> Any:
    """Return the value of a key, which may be an option of a plugin."""
    for part in path:
        value = {one.name: one for one in value}[part] if isinstance(value, tuple) else getattr(value, part)
        value = value.options if isinstance(value, Chosen) else value
    return value


def _flat(table: Mapping[str, Any], origins: Mapping[str, str], path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in table.items():
        key = ".".join((*path, name))
        if isinstance(value, Mapping) and key not in origins:
            rows += _flat(value, origins, (*path, name))
        else:
            rows.append((key, value))
    return rows
