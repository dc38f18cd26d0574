"""The plugins in the slots of settings: which are picked, and the one model that their options make with the rest.

`Picks` fills the slots from the layers; no option is read. Its `model` is an ordinary nested model in which the options
of the picked plugins are fields like all others, and `Picks.table` writes a layer as a table of that model, so that
merging, validation and errors need not know about slots.

A higher layer wins. For a slot that holds several plugins a list (``--reward a --reward b``, ``reward = ["a", "b"]``)
replaces the choice of lower layers, and tables in files (``[reward.a]``) add to one another. Options never choose.

``./file.py:attribute`` is code. It runs if its name was typed: on the command line, in a ``MOTIONKIT_*`` variable, or
as a `Chosen` in Python. A settings file or a run folder may come from anywhere, so a Python file that it names is
refused unless the same name was typed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, create_model

from motionkit import plugins
from motionkit.config._layer import Layer, dotted_keys
from motionkit.config._problems import Problem, which_setting
from motionkit.config._slots import Chosen, Group, Slot, slots_of
from motionkit.config._tree import dotted, group_of, leaves
from motionkit.errors import MotionkitError, did_you_mean


@dataclass
class Pick:
    """One picked plugin, whose options are not validated yet."""

    kind: str  # Plugin kind
    name: str  # Name as given
    origin: str  # Origin of the choice
    since: int = 0  # Number of the layer that made the choice; 0 for the default
    weight: float = 1.0  # Weight in a mixture
    weight_origin: str = "default"  # Origin of the weight
    listed: bool = False  # Whether the weight was given with the name, ``NAME=WEIGHT``, which wins over tables
    given: Chosen | None = None  # The plugin with its options, from Python
    typed: bool = False  # Whether the name was typed, so that it may be a Python file

    @property
    def options(self) -> type[BaseModel]:
        """Options model of the plugin."""
        if self.given is not None:
            return type(self.given.options)
        return plugins.get(self.kind, self.name, typed=self.typed).options

    def is_called(self, word: str) -> bool:
        """Whether `word` means this plugin: its name, its label, or the label as a variable spells it."""
        short = plugins.label(self.name)
        return word in (self.name, short, short.replace("-", "_"))

    def chosen(self, options: BaseModel) -> Chosen:
        """Return the plugin with its options filled in."""
        return Chosen(self.kind, self.name, options, self.weight)


class Picks:
    """The picked plugins of all slots.

    Args:
        declared: Settings model.
        layers: Files, variables and the command line, lowest first.
        typed: Words of the command line whose flags are not in `layers` yet.

    Raises:
        TypeError: A group of a plugin does not extend the settings' group of the same name.
    """

    def __init__(self, declared: type[BaseModel], layers: Sequence[Layer], typed: Iterable[str] = ()) -> None:
        self.declared, self.layers = declared, layers
        self.slots = slots_of(declared)
        self.of: dict[str, list[Pick]] = {}  # The picked plugins of each slot, by field name
        self.errors: list[MotionkitError] = []  # Of slots that could not be filled, which have their default
        self.problems: list[Problem] = []  # Options of no plugin
        self.warnings: list[str] = []  # Oddities that are not errors
        self.notes: list[str] = []  # Lines for the user about automatic choices
        for name, slot in sorted(self.slots.items(), key=lambda item: item[1].decide is not None):
            try:
                self._fill(name, slot, layers)
                self._decide(name, slot, typed)
            except MotionkitError as error:
                self.errors.append(error)
                if name not in self.of:
                    self._fill(name, slot, ())
        self.model = self._model()

    def _fill(self, name: str, slot: Slot, layers: Sequence[Layer]) -> None:
        """Pick the plugins of a slot; none if it may stay empty and was not filled."""
        picks = [_read(slot, word, "default", 0) for word in slot.default]
        typed = {*slot.default}
        by_default = True
        for index, layer in enumerate(layers):
            choice, table = slot.split(layer.table.get(name))
            tables = [word for word, value in table.items() if isinstance(value, Mapping)]
            origin = layer.origin_of((name,))
            typed |= layer.code or set()
            if choice is not None:
                below, picks = picks, [_read(slot, item, origin, index) for item in choice]
                typed |= {pick.name for pick in picks if layer.typed}
                for pick, old in zip(picks, below, strict=False):
                    pick.since = old.since if pick.name == old.name and pick.given is None else index
            elif slot.many and layer.from_file and tables:
                picks = [] if by_default else picks
                picks += [Pick(slot.kind, word, origin) for word in tables if not any(p.is_called(word) for p in picks)]
            by_default &= choice is None and not (layer.from_file and tables)
        names = [pick.name for pick in picks]
        if repeated := [item for item in sorted(names) if names.count(item) > 1]:
            raise MotionkitError(
                f"{name} {repeated[0]!r} is chosen twice.", fix=f"choose it once: --{name} {repeated[0]}=WEIGHT"
            )
        if slot.many and slot.default and not picks:
            raise MotionkitError(f"no {name} is chosen.", fix=f"--{name} {slot.default[0]}")
        for pick in picks:
            pick.typed = pick.given is not None or pick.name in typed
            if plugins.is_file(pick.name) and not pick.typed:
                # Weights in tables still apply to typed names; weights in a list have to be typed again.
                words = [item.name + (f"={item.weight:g}" if item.listed else "") for item in picks]
                flags = [part for word in words for part in (dotted((name,)), word)]
                raise plugins.code_error(f"{pick.origin}: {name}", pick.name, flags)
        self.of[name] = picks

    def _decide(self, name: str, slot: Slot, typed: Iterable[str]) -> None:
        """Replace names such as ``auto``."""
        if slot.decide is None:
            return
        others = {other: [pick.name for pick in picks] for other, picks in self.of.items() if other != name}
        for pick in self.of[name]:
            decided, note = slot.decide(pick.name, set(self._keys(slot, typed)), others)
            if decided != pick.name:
                pick.name, pick.origin = decided, f"{pick.name}, {pick.origin}"
            self.notes += [note] if note else []

    def _keys(self, slot: Slot, typed: Iterable[str]) -> Iterator[str]:
        """Yield the dotted keys of the layers, and those of typed flags that any plugin of the slot's kind has."""
        for layer in self.layers:
            yield from dotted_keys(layer.table)
        words = {word.partition("=")[0].replace("--no-", "--") for word in typed}
        for leaf in (leaf for _, options in installed(slot) for leaf in leaves(options)) if words else ():
            if leaf.flag in words:
                yield leaf.key

    def _model(self) -> type[BaseModel]:
        """Return the declared model with the options of the picked plugins in place of its slots.

        The error of a plugin that cannot be used goes to `errors`, and its slot stays empty. A field's title is the
        name of its plugin.
        """
        fields: dict[str, Any] = {}
        for name, slot in self.slots.items():
            by_plugin: dict[str, Any] = {}
            for pick in self.of[name]:
                try:
                    model = pick.options
                    by_plugin[pick.name] = (Annotated[model, AfterValidator(pick.chosen)], Field(title=pick.name))
                    if pick.given is None:
                        flag = dotted((name,))
                        plugins.require_fit(
                            slot.kind, pick.name, gives=slot.gives, reads=slot.reads, slot=flag, typed=pick.typed
                        )
                except MotionkitError as error:
                    self.errors.append(_naming(name, slot, pick, error))
                    continue
                if slot.spread:
                    fields |= _spread(self.declared, model)
                elif pick.given is not None:
                    by_plugin[pick.name] = (Any, pick.given)
            if slot.many:
                group = create_model(name, __base__=Group, **by_plugin)
                fields[name] = (Annotated[group, AfterValidator(_as_tuple)], ...)
            else:
                fields[name] = (Any, None) if slot.spread or not by_plugin else by_plugin[self.of[name][0].name]
        return create_model(self.declared.__name__, __base__=self.declared, **fields) if fields else self.declared

    def table(self, layer: Layer) -> dict[str, Any]:
        """Return the values of a layer as a table of `model`."""
        table = dict(layer.table)
        for name in [name for name in self.slots if name in table]:
            del table[name]
            try:
                if options := self._options(name, layer):
                    table[name] = options
            except MotionkitError as error:
                self.errors.append(error)
        return table

    def _options(self, name: str, layer: Layer) -> dict[str, Any]:
        """Return the options that a layer sets for the plugins in slot `name`."""
        slot, picks = self.slots[name], self.of[name]
        choice, table = slot.split(layer.table.get(name))
        if slot.many:
            return self._by_plugin(name, table, layer)
        if table and not picks:
            raise MotionkitError(
                f"{name}.{next(iter(table))} is set, but no {name} is chosen.",
                fix=f"choose one with {dotted((name,))} NAME",
            )
        if not table or self.belongs(name, layer):
            return table
        if choice:  # its options are another plugin's
            return {}
        # A lower layer that names no plugin applies to any plugin, as far as it has the options.
        known = picks[0].options.model_fields
        for option in table:
            if option not in known:
                self.warn_idle(name, f"{name}.{option}", layer.origin_of((name, option)))
        return {option: value for option, value in table.items() if option in known}

    def _by_plugin(self, name: str, table: Mapping[str, Any], layer: Layer) -> dict[str, Any]:
        """Assign each table, and each option without a plugin's name, to the plugin it belongs to."""
        tables: dict[str, dict[str, Any]] = {}
        picks = self.of[name]
        for word, value in table.items():
            if isinstance(value, Mapping):
                owners, part = [pick for pick in picks if pick.is_called(word)][:1], value
            else:
                only = len(picks) == 1 and word == "weight"
                owners, part = [pick for pick in picks if only or word in pick.options.model_fields], {word: value}
            if len(owners) == 1:
                tables.setdefault(owners[0].name, {}).update(part)
            elif not (isinstance(value, Mapping) and layer.from_file):  # files may hold tables for other choices
                self.problems.append(self._no_owner(name, word, value, owners, layer.origin_of((name, word))))
        for pick in picks:
            if "weight" in tables.get(pick.name, {}):
                weight = _read_weight(tables[pick.name].pop("weight"))
                if not pick.listed:
                    pick.weight, pick.weight_origin = weight, layer.origin_of((name, pick.name, "weight"))
        return tables

    def _no_owner(self, name: str, word: str, value: Any, owners: Sequence[Pick], origin: str) -> Problem:
        """Return the problem with a table of a plugin that is not picked, or an option that none or several have."""
        slot, key, names = self.slots[name], f"{name}.{word}", [pick.name for pick in self.of[name]]
        if isinstance(value, Mapping):
            known = [entry.name for entry in plugins.available(slot.kind)]
            fix = f"add --{name} {word}" if word in known else did_you_mean(word, [*known, *names])
            return Problem(key, f"{word!r} is not chosen (chosen: {', '.join(names) or 'none'})", origin, "", fix)
        if owners:
            forms = " or ".join(dotted((name, plugins.label(pick.name), word)) for pick in owners)
            message = f"{' and '.join(repr(pick.name) for pick in owners)} both have this option"
            return Problem(key, message, origin, repr(value), f"write {forms}")
        options = [f"{name}.{item}" for pick in self.of[name] for item in pick.options.model_fields]
        others = owners_of(slot, (word,))
        hint = which_setting(key, options)
        fix = f"it belongs to {' and '.join(others)}: --{name} {' or '.join(others)}" if others else hint
        return Problem(key, f"no chosen {name} ({', '.join(names)}) has this option", origin, repr(value), fix)

    def belongs(self, name: str, layer: Layer) -> bool:
        """Whether a layer applies to the picked plugin: it is not below the choice, or has the same source."""
        since = self.of[name][0].since
        named = self.slots[name].split(layer.table.get(name))[0] is not None
        return self.layers.index(layer) >= since or (not named and layer.name == self.layers[since].name)

    def warn_idle(self, name: str, key: str, origin: str) -> None:
        """Warn of an option that the plugin in slot `name` does not have."""
        plugin = self.of[name][0].name
        self.warnings.append(f"{key} (from {origin}) has no effect: {plugin!r} has no such option")


def _read(slot: Slot, item: Any, origin: str, index: int) -> Pick:
    """Read ``NAME``, ``NAME=WEIGHT`` or a `Chosen`."""
    if isinstance(item, Chosen):
        return Pick(slot.kind, item.name, origin, index, item.weight, origin, listed=True, given=item)
    name, equals, weight = str(item).strip().partition("=") if slot.many else (str(item), "", "")
    if not name:
        raise MotionkitError(f"{item!r} has no plugin name.", fix="write NAME or NAME=WEIGHT.")
    if equals:
        return Pick(slot.kind, name, origin, index, _read_weight(weight), origin, listed=True)
    return Pick(slot.kind, name, origin, index)


def _read_weight(value: Any) -> float:
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = float("nan")
    if weight != weight or abs(weight) == float("inf"):
        raise MotionkitError(f"weight {value!r} is not a finite number.", fix="write NAME=WEIGHT, such as physics=0.1.")
    return weight


def installed(slot: Slot, *, builtin: bool = False) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield name and options model of the installed plugins for a slot (only built-in ones with `builtin`)."""
    for entry in plugins.available(slot.kind):
        if entry.builtin or not builtin:
            try:
                yield entry.name, plugins.get(slot.kind, f"{entry.distribution}:{entry.name}").options
            except MotionkitError:  # reported when it is chosen
                continue


def owners_of(slot: Slot, path: tuple[str, ...] = (), *, flag: str = "") -> list[str]:
    """Return the installed plugins that have the option at `path`, or one with `flag`."""
    return [
        name
        for name, options in installed(slot)
        if any(leaf.path[: len(path)] == path if path else leaf.flag == flag for leaf in leaves(options))
    ]


def _naming(name: str, slot: Slot, pick: Pick, error: MotionkitError) -> MotionkitError:
    """Let an error about a plugin name the setting, where that has another name than the kind."""
    if name != plugins.KINDS[slot.kind].singular and not isinstance(error, plugins.CodeError):
        where = dotted((name,)) if pick.origin == "command line" else f"{pick.origin}: {name}"
        error.message = f"{where} {pick.name}: {error.message}"
    return error


def _as_tuple(group: BaseModel) -> tuple[Any, ...]:
    return tuple(value for _, value in group)


def _spread(model: type[BaseModel], options: type[BaseModel]) -> dict[str, Any]:
    for name, info in options.model_fields.items():
        group, shared = group_of(info), group_of(model.model_fields[name]) if name in model.model_fields else None
        if group is None or shared is None or not issubclass(group, shared):
            raise TypeError(f"{options.__name__}.{name} must be a group that extends {model.__name__}.{name}")
    return {name: (info.annotation, info) for name, info in options.model_fields.items()}
