"""One rule for every setting: command line > ``MOTIONKIT_*`` > ``--config`` files > preset > defaults.

`resolve_layers` is the one pass that applies it: it picks the plugins, makes one model of all settings, lays the values
of the layers over the defaults, and validates the result once. It returns `Resolved`, where each value has its origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, SerializerFunctionWrapHandler, ValidationError, model_serializer, model_validator

from motionkit import plugins
from motionkit.config._code import code_in, groups
from motionkit.config._foreign import Translated
from motionkit.config._layer import Layer
from motionkit.config._other_words import which_setting
from motionkit.config._picks import Picks, owners_of, split_choice
from motionkit.config._problems import Problem, SettingsError, from_validation
from motionkit.config._slots import Chosen, slots_of
from motionkit.config._sources import read_layers
from motionkit.config._tree import default_table, dotted, from_text, group_of, leaves
from motionkit.documents import value_at
from motionkit.errors import MotionkitError

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Preset:
    """Values that replace defaults; user input wins over them."""

    origin: str  # Name in origins
    values: Mapping[str, Any]  # By dotted key
    note: str  # How to turn it off, for the user


class Settings(Translated):
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
    def preset_of(cls, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Preset | None:
        """Return the preset that replaces defaults, if any.

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


def resolve(
    model: type[S],
    flags: Mapping[tuple[str, ...], Any] | None = None,
    sets: Sequence[str] = (),
    files: Sequence[Path] = (),
    *,
    command: str = "",
) -> Resolved[S]:
    """Read files, variables, ``key=value`` and flags, and resolve them (`read_layers`, `resolve_layers`).

    Example:
        >>> from motionkit.config import Group, Settings, resolve
        >>> class Run(Group):
        ...     num_steps: int = 100
        >>> class Train(Settings):
        ...     run: Run = Run()
        >>> resolved = resolve(Train, sets=["run.num_steps=20"])
        >>> resolved.settings.run.num_steps, resolved.origins["run.num_steps"]
        (20, 'command line')
    """
    return resolve_layers(model, read_layers(model, flags, sets, files), command=command)


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
    picks = Picks(model, layers)
    merged = _Merged(model, picks)
    errors, problems = picks.errors, merged.problems
    values: dict[str, Any] = {}
    try:
        validated = picks.model.model_validate(merged.values)
        if not errors:
            values = merged.settings(validated)
            merged.refuse_idle(validated)
            merged.refuse_code(validated, values)
    except ValidationError as error:
        problems += from_validation(error, merged.origins)
    if errors and not problems:
        raise errors[0]
    for message, cause in {cause.message: cause for cause in errors}.items():
        problems.append(Problem(message, cause.why or cause.fix, fix=cause.fix if cause.why else ""))
    if problems:
        typed = [layer.table for layer in layers if layer.by_flag]
        flags = {
            leaf.key: leaf.flag for leaf in merged.leaves for table in typed if value_at(table, *leaf.path) is not None
        }
        raise SettingsError([replace(problem, flag=flags.get(problem.key, "")) for problem in problems], command)
    merged.finish()
    return Resolved(
        cast(S, model.model_construct(**values)),
        merged.origins,
        (*(text for layer in layers for text in layer.warnings), *picks.warnings),
        (*(text for layer in layers for text in layer.notes), *picks.notes),
        merged.given,
        frozenset(merged.code),
    )


def concrete(model: type[BaseModel], layers: Sequence[Layer], typed: Sequence[str] = ()) -> type[BaseModel]:
    """Return `model` with the options of the plugins that `layers` choose in place of its slots.

    A plugin that cannot be used is left out, and `resolve_layers` raises its error.

    Args:
        model: Settings model.
        layers: User input, lowest first.
        typed: Words of the command line whose flags are not in `layers` yet.
    """
    return Picks(model, layers, typed).model


class _Merged:
    """The values of the layers over the defaults, with their origins."""

    def __init__(self, declared: type[Settings], picks: Picks) -> None:
        self.picks = picks
        self.leaves = list(leaves(picks.model))
        self.values = default_table(picks.model)
        self.origins = {leaf.key: "default" for leaf in self.leaves}
        self.given: dict[str, bool] = {}
        self.problems = picks.problems
        self.code: set[str] = set()  # Typed options and Python files that run code
        self._preset = self._lay_preset(declared)
        for index in range(len(picks.layers)):
            self._lay(picks.model, picks.table(index), self.values, index)

    def _lay_preset(self, declared: type[Settings]) -> Preset | None:
        """Replace defaults by a preset's values."""
        given: dict[str, Any] = {}
        for layer in self.picks.layers:
            given |= layer.table
        options: dict[str, list[type[BaseModel]]] = {}
        for name in self.picks.slots:
            with suppress(MotionkitError):  # an unusable plugin is among the errors already
                options[name] = [pick.options for pick in self.picks.of[name]]
        preset = declared.preset_of(given, options)
        if preset is not None:
            for key, value in preset.values.items():
                *above, last = key.split(".")
                reduce(getitem, above, self.values)[last] = value
                self.origins[key] = preset.origin
        return preset

    def _lay(
        self, model: type[BaseModel], table: Mapping[str, Any], into: dict[str, Any], index: int, *path: str
    ) -> None:
        """Lay a table of layer `index` over the values of `model` at `path`."""
        layer = self.picks.layers[index]
        for name, value in table.items():
            here = (*path, str(name))
            declared = model.model_fields.get(str(name))
            if declared is None:
                self._unknown(here, value, index)
                continue
            group, below = group_of(declared), into.get(str(name))
            if group is not None and isinstance(value, BaseModel) and not isinstance(value, group):
                value = dict(value)  # a group of the settings, which the plugin's extends
            if group is not None and isinstance(value, Mapping) and isinstance(below, dict):
                self._lay(group, value, below, index, *here)
                continue
            into[str(name)] = from_text(declared.annotation, value)
            self.origins[".".join(here)] = layer.origin_of(here)
            # No file holds a group as an object: it was made in Python.
            self.given[".".join(here)] = layer.typed or isinstance(value, BaseModel)

    def _unknown(self, path: tuple[str, ...], value: Any, index: int) -> None:
        picks, layer, key, fix = self.picks, self.picks.layers[index], ".".join(path), ""
        origin = layer.origin_of(path)
        for name, slot in picks.slots.items():
            if slot.spread and (owners := owners_of(slot, path)):
                if not picks.belongs(name, index):
                    if split_choice(slot, layer.table.get(name))[0] is None:
                        picks.warn_idle(name, key, origin)
                    return
                fix = f"it is an option of {name} {' and '.join(owners)}: {dotted((name,))} {' or '.join(owners)}"
        shown = "" if isinstance(value, Mapping) else repr(value)
        fix = fix or which_setting(key, [leaf.key for leaf in self.leaves])
        self.problems.append(Problem(key, "unknown setting", origin, shown, fix))

    def settings(self, validated: BaseModel) -> dict[str, Any]:
        """Return the values of the declared model's fields.

        Raises:
            ValidationError: Groups of a spread plugin do not fit each other.
        """
        values = dict(validated)
        for name, slot in self.picks.slots.items():
            if slot.spread:
                (pick,) = self.picks.of[name]
                parts = {part: values[part] for part in pick.options.model_fields}
                values[name] = pick.chosen(pick.options.model_validate(parts))
        return values

    def refuse_idle(self, settings: BaseModel) -> None:
        """Refuse options without effect that differ from their default, and note those that were typed with it."""
        why = {
            f"{start}.{option}" if start else option: reason
            for start, group, _ in groups(settings)
            for option, reason in group.idle().items()
        }
        for leaf in self.leaves:
            if leaf.key not in why:
                continue
            value, origin = _value_at(settings, leaf.path), self.origins.get(leaf.key, "default")
            if value != leaf.default:
                self.problems.append(Problem(leaf.key, f"has no effect: {why[leaf.key]}", origin, repr(value)))
            elif origin == "command line":  # a run's config.json holds every option
                self.picks.notes.append(f"{leaf.key} has no effect: {why[leaf.key]}")

    def refuse_code(self, settings: BaseModel, values: Mapping[str, Any]) -> None:
        """Refuse values that run code and come from a file, of every group and plugin."""
        typed = {text for layer in self.picks.layers for text in layer.code or ()}
        found = [*code_in(settings)]
        for name, slot in self.picks.slots.items():
            if slot.spread:  # its groups are among those of the settings
                found += code_in(values[name].options, plugin=True)
        for one in {one.key: one for one in reversed(found)}.values():
            mark = f"{one.key}={one.value}"
            if self._is_typed(one.key) or mark in typed:
                self.code.add(mark)
            else:
                origin = self.origins.get(one.key, "default")
                fix = f"if you trust it, add to the command: {one.words}"
                message = f"counts only where it is typed: {one.why.rstrip('.')}"
                self.problems.append(Problem(one.key, message, origin, repr(one.value), fix))

    def _is_typed(self, key: str) -> bool:
        """Whether a setting, or the table or plugin that holds it, was typed or given in Python."""
        for name, slot in self.picks.slots.items():
            for pick in self.picks.of[name]:
                if pick.given is not None and key.startswith(f"{name}.{pick.name}." if slot.many else f"{name}."):
                    return True
        parts = key.split(".")
        above = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next((self.given[part] for part in above if part in self.given), False)

    def finish(self) -> None:
        """Add the origins of the plugins and of their weights, and the note on a preset."""
        for name, slot in self.picks.slots.items():
            for pick in self.picks.of[name]:
                part = f".{pick.name}.weight" if slot.many else "" if slot.spread else ".name"
                self.origins[name + part] = pick.weight_origin if slot.many else pick.origin
                if plugins.is_file(pick.name):
                    self.code.add(pick.name)
        preset = self._preset
        if preset and (kept := [key for key in preset.values if self.origins[key] == preset.origin]):
            shown = ", ".join(f"{key} {preset.values[key]}" for key in kept)
            self.picks.notes.append(f"{preset.origin}: {shown}; {preset.note}")


def _value_at(value: Any, path: Sequence[str]) -> Any:
    """Return the value of a key, which may be an option of a plugin."""
    for part in path:
        if isinstance(value, tuple):
            value = next(chosen for chosen in value if chosen.name == part)
        else:
            value = getattr(value.options if isinstance(value, Chosen) else value, part)
    return value.options if isinstance(value, Chosen) else value


def _flat(table: Mapping[str, Any], origins: Mapping[str, str], path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in table.items():
        key = ".".join((*path, name))
        if isinstance(value, Mapping) and key not in origins:
            rows += _flat(value, origins, (*path, name))
        else:
            rows.append((key, value))
    return rows
