"""One rule for every setting: command line > ``MOTIONKIT_*`` > ``--config`` files > preset > defaults.

`resolve` applies it to `Settings` and returns `Resolved`, which has the origin of each value. A `Draft` is between
these: its plugins are chosen, its values are not yet merged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import getitem
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, SerializerFunctionWrapHandler, ValidationError, model_serializer, model_validator

from motionkit.config._choose import (
    belongs,
    choose,
    code_in,
    concrete,
    idle,
    own_table,
    owners_of,
    settings_of,
    split_choice,
)
from motionkit.config._given import Given, Translated, read_layers
from motionkit.config._other_words import which_setting
from motionkit.config._problems import Problem, SettingsError, from_validation
from motionkit.config._slots import Chosen, Group, slots_of
from motionkit.config._tree import default_table, dotted, from_text, group_of, leaves
from motionkit.config.sources import Layer, nested
from motionkit.errors import MotionkitError

S = TypeVar("S", bound=Group)


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
        return Draft(cls, [Layer("Python", data, from_file=True)]).values()

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

    def snapshot(self) -> dict[str, Any]:
        """Return the settings as nested JSON-able tables, which `resolve` accepts as a file."""
        return self.settings.model_dump(mode="json")

    def rows(self) -> list[tuple[str, Any, str]]:
        """Return key, value and origin of every setting, in the order of declaration."""
        return [(key, value, self.origins.get(key, "default")) for key, value in _flat(self.snapshot(), self.origins)]


class Draft(Generic[S]):
    """Settings whose plugins are chosen; `resolve` merges and validates their values.

    Args:
        declared: Settings model.
        layers: User input, lowest layer first, flags last; by default variables only.
        typed: Words of the command line whose flags will be passed to `resolve`.
    """

    def __init__(self, declared: type[S], layers: Sequence[Layer] | None = None, typed: Sequence[str] = ()) -> None:
        self.declared = declared
        self.layers = list(layers or read_layers(declared, Given()))
        self.picks = choose(declared, self.layers, typed)
        # Ordinary nested model of all settings, including the options of the chosen plugins.
        self.model = concrete(declared, self.picks)
        self._values = default_table(self.model)
        self._origins = {leaf.key: "default" for leaf in leaves(self.model)}
        self._given: dict[str, bool] = {}
        self.code: set[str] = set()  # Typed options that run code, as ``key=value``; known after `resolve`
        self._problems: list[Problem] = []

    def resolve(self, flags: Mapping[tuple[str, ...], Any], *, command: str = "") -> Resolved[S]:
        """Merge the layers and validate the result.

        Args:
            flags: Path of a key to the value of its flag; None or an empty list if it was not given.
            command: Name of the command, for the hint in errors.

        Raises:
            MotionkitError: A plugin cannot be used.
            SettingsError: One or several settings are wrong; all of them are named, with their origins.
        """
        flags = {path: value for path, value in flags.items() if value not in (None, [], ())}
        self.layers[-1] = Layer("command line", nested(self.declared, flags))
        settings = cast(S, self.declared.model_construct(**self.values(flags, command)))
        warnings = (*(text for layer in self.layers for text in layer.warnings), *self.picks.warnings)
        notes = (*(text for layer in self.layers for text in layer.notes), *self.picks.notes)
        return Resolved(settings, self._origins, warnings, notes, self._given)

    def values(self, flags: Collection[tuple[str, ...]] = (), command: str = "") -> dict[str, Any]:
        """Return the values of the declared model's fields; errors as in `resolve`."""
        values: dict[str, Any] = {}
        errors, problems = self.picks.errors, self._problems
        preset = self._lay_preset()
        for index, layer in enumerate(self.layers):
            table = dict(layer.table)
            for name in [name for name in self.picks.slots if name in table]:
                del table[name]
                try:
                    if own_values := own_table(name, self.picks, index, self.layers, problems):
                        table[name] = own_values
                except MotionkitError as error:
                    errors.append(error)
            self._lay(self.model, table, index)
        try:
            validated = self.model.model_validate(self._values)
            if not errors:
                values = settings_of(validated, self.picks)
                self._refuse_idle(validated)
                self._refuse_code(validated, values)
        except ValidationError as error:
            problems += from_validation(error, self._origins)
        if errors and not problems:
            raise errors[0]
        for message, cause in {cause.message: cause for cause in errors}.items():
            problems.append(Problem(message, cause.why or cause.fix, fix=cause.fix if cause.why else ""))
        if problems:
            typed = {leaf.key: leaf.flag for leaf in leaves(self.model) if leaf.path in flags}
            raise SettingsError([replace(problem, flag=typed.get(problem.key, "")) for problem in problems], command)
        for name, slot in self.picks.slots.items():
            for pick in self.picks.of[name]:
                part = f".{pick.name}.weight" if slot.many else "" if slot.spread else ".name"
                self._origins[name + part] = pick.weight_origin if slot.many else pick.origin
        if preset and (kept := [key for key in preset.values if self._origins[key] == preset.origin]):
            shown = ", ".join(f"{key} {preset.values[key]}" for key in kept)
            self.picks.notes.append(f"{preset.origin}: {shown}; {preset.note}")
        return values

    def _lay_preset(self) -> Preset | None:
        """Replace defaults by a preset's values."""
        given: dict[str, Any] = {}
        for layer in self.layers:
            given |= layer.table
        options: dict[str, list[type[BaseModel]]] = {}
        for name in self.picks.slots:
            with suppress(MotionkitError):  # an unusable plugin is among the errors already
                options[name] = [pick.options for pick in self.picks.of[name]]
        preset = self.declared.preset_of(given, options) if issubclass(self.declared, Settings) else None
        if preset is not None:
            for key, value in preset.values.items():
                *groups, last = key.split(".")
                reduce(getitem, groups, self._values)[last] = value
                self._origins[key] = preset.origin
        return preset

    def _refuse_idle(self, settings: BaseModel) -> None:
        """Refuse options without effect that differ from their default, and note those that were typed with it."""
        for leaf in leaves(self.model):
            if getattr(leaf.group, "idle", Group.idle) is Group.idle or leaf.path[0] in self.picks.slots:
                continue
            group = reduce(getattr, leaf.path[:-1], settings)
            if isinstance(group, Group):
                self._look_idle(group, leaf.path[-1], leaf.key, leaf.default)
        for name, slot in self.picks.slots.items():
            value = getattr(settings, name)
            for chosen in value if isinstance(value, tuple) else (value,):
                if isinstance(chosen, Chosen) and isinstance(chosen.options, Group) and not slot.spread:
                    prefix = f"{name}.{chosen.name}" if slot.many else name
                    for option in chosen.options.idle():
                        default = type(chosen.options).model_fields[option].default
                        self._look_idle(chosen.options, option, f"{prefix}.{option}", default)
        if isinstance(settings, Settings):  # options without effect because of other groups
            declared = {leaf.key: leaf.default for leaf in leaves(self.model)}
            for key, why in settings.idle().items():
                if "." in key and key in declared:
                    self._judge_idle(key, why, _value_at(settings, key), declared[key])

    def _look_idle(self, group: Group, option: str, key: str, default: Any) -> None:
        if why := group.idle().get(option):
            self._judge_idle(key, why, getattr(group, option), default)

    def _judge_idle(self, key: str, why: str, value: Any, default: Any) -> None:
        origin = self._origins.get(key, "default")
        if value != default:
            self._problems.append(Problem(key, f"has no effect: {why}", origin, repr(value)))
        elif origin == "command line":  # a run's config.json holds every option
            self.picks.notes.append(f"{key} has no effect: {why}")

    def _refuse_code(self, settings: BaseModel, values: Mapping[str, Any]) -> None:
        """Refuse values that run code and come from a file, of every group and plugin."""
        typed = {text for layer in self.layers for text in layer.code or ()}
        found = [*code_in(settings)]
        for name, slot in self.picks.slots.items():
            if slot.spread:  # its groups are among those of the settings
                found += code_in(values[name].options, plugin=True)
        for one in {one.key: one for one in reversed(found)}.values():
            mark = f"{one.key}={one.value}"
            if self._is_typed(one.key) or mark in typed:
                self.code.add(mark)
            else:
                origin = self._origins.get(one.key, "default")
                fix = f"if you trust it, add to the command: {one.words}"
                message = f"counts only where it is typed: {one.why.rstrip('.')}"
                self._problems.append(Problem(one.key, message, origin, repr(one.value), fix))

    def _is_typed(self, key: str) -> bool:
        """Whether a setting, or the table or plugin that holds it, was typed or given in Python."""
        for name, picks in self.picks.of.items():
            for pick in picks:
                whole = f"{name}.{pick.name}." if self.picks.slots[name].many else f"{name}."
                if pick.given is not None and key.startswith(whole):
                    return True
        parts = key.split(".")
        above = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next((self._given[part] for part in above if part in self._given), False)

    def _lay(
        self,
        model: type[BaseModel],
        table: Mapping[str, Any],
        index: int,
        path: tuple[str, ...] = (),
        into: dict[str, Any] | None = None,
    ) -> None:
        into = self._values if into is None else into
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
                self._lay(group, value, index, here, below)
                continue
            into[str(name)] = from_text(declared.annotation, value)
            self._origins[".".join(here)] = self.layers[index].origin_of(here)
            # No file holds a group as an object: it was made in Python.
            self._given[".".join(here)] = self.layers[index].typed or isinstance(value, BaseModel)

    def _unknown(self, path: tuple[str, ...], value: Any, index: int) -> None:
        key, origin = ".".join(path), self.layers[index].origin_of(path)
        fix = ""
        for name, slot in self.picks.slots.items():
            if slot.spread and (owners := owners_of(slot, path)):
                if not belongs(self.picks, name, index, self.layers):
                    if split_choice(slot, self.layers[index].table.get(name))[0] is None:
                        self.picks.warnings.append(idle(key, origin, self.picks.of[name][0]))
                    return
                fix = f"it is an option of {name} {' and '.join(owners)}: {dotted((name,))} {' or '.join(owners)}"
        known = [leaf.key for leaf in leaves(self.model)]
        shown = "" if isinstance(value, Mapping) else repr(value)
        self._problems.append(Problem(key, "unknown setting", origin, shown, fix or which_setting(key, known)))


def resolve(model: type[S], given: Given | None = None, *, command: str = "") -> Resolved[S]:
    """Choose plugins, merge defaults, files, variables and the command line, and validate the result.

    Raises:
        MotionkitError: A file cannot be read, or a plugin cannot be found.
        SettingsError: One or several settings are wrong; all of them are named, with their origins.

    Example:
        >>> from motionkit.config import Given, TrainerSettings, resolve
        >>> resolved = resolve(TrainerSettings, Given(sets=("run.num_steps=20",)))
        >>> resolved.settings.run.num_steps, resolved.origins["run.num_steps"]
        (20, 'command line')
    """
    given = given or Given()
    return Draft(model, read_layers(model, given)).resolve(given.flags, command=command)


def _value_at(value: Any, key: str) -> Any:
    """Return the value of a dotted key, which may be an option of a plugin."""
    for part in key.split("."):
        if isinstance(value, tuple):
            value = next(chosen for chosen in value if chosen.name == part)
        else:
            value = getattr(value.options if isinstance(value, Chosen) else value, part)
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
