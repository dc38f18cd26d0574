"""Phase 1: which plugins fill the slots, from the layers alone. No option is read.

A higher layer wins. For a slot that holds several plugins a list (``--reward a --reward b``, ``reward = ["a", "b"]``)
replaces the choice of lower layers, and tables in files (``[reward.a]``) add to one another. Options never choose.

``./file.py:attribute`` is code. It runs when its name was typed: on the command line, in a ``MOTIONKIT_*`` variable, or
as a `Chosen` in Python. A settings file or a run folder may come from anywhere, so a Python file that it names is
refused until the same name has been typed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, create_model

from motionkit import plugins
from motionkit.config._problems import Problem
from motionkit.config._slots import Chosen, Group, Slot, slots_of
from motionkit.config._tree import dotted, group_of, leaves
from motionkit.config.sources import Layer
from motionkit.errors import MotionkitError, did_you_mean


@dataclass
class Pick:
    """One chosen plugin."""

    kind: str  # Plugin kind
    name: str  # What it is chosen by
    origin: str  # Where the choice was made
    since: int = 0  # Number of the layer that made the choice; 0 for the default
    weight: float = 1.0  # Weight in a mixture
    weight_origin: str = "default"  # Where the weight was given
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


@dataclass
class Picks:
    """What fills every slot."""

    slots: Mapping[str, Slot]  # The slots, by the name of their field
    of: dict[str, list[Pick]] = field(default_factory=dict)  # The chosen plugins of each slot, by the name of the field
    # What went wrong; a slot that could not be filled has its default.
    errors: list[MotionkitError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # What is odd without being wrong
    notes: list[str] = field(default_factory=list)  # Lines for the user, of slots that decided by themselves


def choose(
    model: type[BaseModel],
    layers: Sequence[Layer],  # what files, variables and the command line hold
    typed: Iterable[str] = (),  # words of the command line whose flags are not in `layers` yet
) -> Picks:
    """Fill the slots of `model` from `layers`, lowest first."""
    found = Picks(slots_of(model))
    for name, slot in sorted(found.slots.items(), key=lambda item: item[1].decide is not None):
        try:
            found.of[name] = _pick(name, slot, layers)
            _mark_typed(name, slot, found.of[name], layers)
            _decide(slot, found, found.of[name], layers, typed)
        except MotionkitError as error:
            found.errors.append(error)
            try:  # the flags of what was typed are there, so that Typer finds no other error before this one
                top = [layer for layer in layers[-1:] if not layer.from_file]
                found.of[name] = _pick(name, slot, top)
                _mark_typed(name, slot, found.of[name], top)
            except MotionkitError:
                found.of[name] = _pick(name, slot, ())
    return found


def _pick(name: str, slot: Slot, layers: Sequence[Layer]) -> list[Pick]:
    """Return the chosen plugins; nothing when a slot that may stay empty was not filled."""
    found = [_read(slot, word, "default", 0) for word in slot.default]
    by_default = True
    for index, layer in enumerate(layers):
        wanted, table = split_choice(slot, layer.table.get(name))
        tables = [word for word, value in table.items() if isinstance(value, Mapping)]
        origin = layer.origin_of((name,))
        if wanted is not None:
            below, found = found, [_read(slot, item, origin, index) for item in wanted]
            for pick, old in zip(found, below, strict=False):
                pick.since = old.since if pick.name == old.name and pick.given is None else index
        elif slot.many and layer.from_file and tables:
            found = [] if by_default else found
            found += [Pick(slot.kind, word, origin) for word in tables if not any(p.is_called(word) for p in found)]
        by_default &= wanted is None and not (layer.from_file and tables)
    names = [pick.name for pick in found]
    if repeated := [item for item in sorted(names) if names.count(item) > 1]:
        raise MotionkitError(
            f"{name} {repeated[0]!r} is chosen twice.", fix=f"choose it once: --{name} {repeated[0]}=WEIGHT"
        )
    if slot.many and slot.default and not found:
        raise MotionkitError(f"no {name} is chosen.", fix=f"--{name} {slot.default[0]}")
    return found


def _read(slot: Slot, item: Any, origin: str, index: int) -> Pick:
    """Read ``NAME``, ``NAME=WEIGHT`` or what Python gave."""
    if isinstance(item, Chosen):
        return Pick(slot.kind, item.name, origin, index, item.weight, origin, listed=True, given=item)
    name, equals, weight = str(item).strip().partition("=") if slot.many else (str(item), "", "")
    if not name:
        raise MotionkitError(f"{item!r} has no plugin name.", fix="write NAME or NAME=WEIGHT.")
    if equals:
        return Pick(slot.kind, name, origin, index, read_weight(weight), origin, listed=True)
    return Pick(slot.kind, name, origin, index)


def read_weight(value: Any) -> float:
    """Read a weight."""
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = float("nan")
    if weight != weight or abs(weight) == float("inf"):
        raise MotionkitError(f"weight {value!r} is not a finite number.", fix="write NAME=WEIGHT, such as physics=0.1.")
    return weight


def split_choice(slot: Slot, raw: Any) -> tuple[list[Any] | None, dict[str, Any]]:
    """Split what a layer holds for a slot into the choice (None when it makes none) and the options beside it."""
    table = dict(raw) if isinstance(raw, Mapping) else {"": raw}
    wanted = table.pop("", None)
    if not slot.many:
        named = table.pop("name", None)
        return [wanted or named] if wanted or named else None, table
    if isinstance(wanted, str):
        return [part.strip() for part in wanted.split(",") if part.strip()], table
    return wanted if wanted is None else list(wanted) if isinstance(wanted, (list, tuple)) else [wanted], table


def _mark_typed(name: str, slot: Slot, picks: Sequence[Pick], layers: Sequence[Layer]) -> None:
    """Mark the plugins whose name was typed; refuse Python files whose name stands in files only."""
    typed = {*slot.default}
    for layer in layers:
        typed |= layer.code or set()
        if layer.typed:
            typed |= {_read(slot, item, "", 0).name for item in split_choice(slot, layer.table.get(name))[0] or ()}
    for pick in picks:
        pick.typed = pick.given is not None or pick.name in typed
        if plugins.is_file(pick.name) and not pick.typed:
            # Weights of tables count when names are typed; weights of a list have to be typed again.
            words = [item.name + (f"={item.weight:g}" if item.listed else "") for item in picks]
            raise plugins.code_error(f"{pick.origin}: {name}", pick.name, typed_again(name, words))


def typed_again(name: str, words: Iterable[str]) -> list[str]:
    """Return the flags that name plugins for a slot."""
    return [part for word in words for part in (dotted((name,)), word)]


def _decide(slot: Slot, found: Picks, own: Sequence[Pick], layers: Sequence[Layer], typed: Iterable[str]) -> None:
    if slot.decide is None:
        return
    others = {name: [pick.name for pick in picks] for name, picks in found.of.items() if picks is not own}
    for pick in own:
        name, note = slot.decide(pick.name, set(_keys(slot, layers, typed)), others)
        if name != pick.name:
            pick.name, pick.origin = name, f"{pick.name}, {pick.origin}"
        found.notes += [note] if note else []


def _keys(slot: Slot, layers: Sequence[Layer], typed: Iterable[str]) -> Iterator[str]:
    """Yield the dotted keys that the layers set, and those of typed flags that any plugin of the slot's kind has."""
    for layer in layers:
        yield from _dotted_keys(layer.table)
    words = {word.partition("=")[0].replace("--no-", "--") for word in typed}
    for leaf in (leaf for _, options in installed(slot) for leaf in leaves(options)) if words else ():
        if leaf.flag in words:
            yield leaf.key


def _dotted_keys(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _dotted_keys(value, f"{prefix}{name}.")


def installed(slot: Slot, *, builtin: bool = False) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield name and options model of the installed plugins that a slot may hold (of ours alone, with `builtin`)."""
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


# Phase 2: one ordinary nested model in which the options of the chosen plugins are fields like all others.
#
# `concrete` makes the model, and `own_table` turns what a layer holds for a slot into a table of that model. Laying the
# layers over each other, validation and errors then know no slots. `settings_of` puts the plugins back.


def concrete(model: type[BaseModel], picks: Picks) -> type[BaseModel]:
    """Return `model` with the options of the chosen plugins in place of its slots.

    A plugin that cannot be used is noted in `picks.errors`; its slot is left empty.

    Raises:
        TypeError: A group of a plugin does not extend the settings' group of the same name.
    """
    fields: dict[str, Any] = {}
    for name, slot in picks.slots.items():
        each: dict[str, Any] = {}
        for pick in picks.of[name]:
            try:
                each[pick.name] = (Annotated[pick.options, AfterValidator(pick.chosen)], ...)
                if pick.given is None:
                    plugins.require_fit(
                        slot.kind, pick.name, gives=slot.gives, reads=slot.reads, slot=dotted((name,)), typed=pick.typed
                    )
            except MotionkitError as error:
                picks.errors.append(error)
                continue
            if slot.spread:
                fields |= _spread(model, pick.options)
            elif pick.given is not None:
                each[pick.name] = (Any, pick.given)
        if slot.many:
            fields[name] = (Annotated[create_model(name, __base__=Group, **each), AfterValidator(_as_tuple)], ...)
        else:
            fields[name] = (Any, None) if slot.spread or not each else each[picks.of[name][0].name]
    return create_model(model.__name__, __base__=model, **fields) if fields else model


def _as_tuple(group: BaseModel) -> tuple[Any, ...]:
    return tuple(getattr(group, name) for name in type(group).model_fields)


def _spread(model: type[BaseModel], options: type[BaseModel]) -> dict[str, Any]:
    for name, info in options.model_fields.items():
        own, shared = group_of(info), group_of(model.model_fields[name]) if name in model.model_fields else None
        if own is None or shared is None or not issubclass(own, shared):
            raise TypeError(f"{options.__name__}.{name} must be a group that extends {model.__name__}.{name}")
    return {name: (info.annotation, info) for name, info in options.model_fields.items()}


def settings_of(found: BaseModel, picks: Picks) -> dict[str, Any]:
    """Return the values of the declared model from a valid concrete one.

    Raises:
        ValidationError: Groups of a spread plugin do not fit each other.
    """
    values = dict(found)
    for name, slot in picks.slots.items():
        if slot.spread:
            (pick,) = picks.of[name]
            parts = {part: values[part] for part in pick.options.model_fields}
            values[name] = pick.chosen(pick.options.model_validate(parts))
    return values


def own_table(name: str, picks: Picks, index: int, layers: Sequence[Layer], problems: list[Problem]) -> dict[str, Any]:
    """Return what layer number `index` holds for the plugins in the slot `name`, as a table of the concrete model."""
    slot, layer, chosen = picks.slots[name], layers[index], picks.of[name]
    wanted, table = split_choice(slot, layer.table.get(name))
    if slot.many:
        return _by_plugin(name, slot, table, chosen, layer, problems)
    if table and not chosen:
        raise MotionkitError(
            f"{name}.{next(iter(table))} is set, but no {name} is chosen.",
            fix=f"choose one with {dotted((name,))} NAME",
        )
    if not table or belongs(picks, name, index, layers):
        return table
    if wanted:  # its options are another plugin's
        return {}
    # A lower layer that names no plugin is for whichever is chosen, which takes the options that it has.
    known = chosen[0].options.model_fields
    for option in table:
        if option not in known:
            picks.warnings.append(idle(f"{name}.{option}", layer.origin_of((name, option)), chosen[0]))
    return {option: value for option, value in table.items() if option in known}


def belongs(picks: Picks, name: str, index: int, layers: Sequence[Layer]) -> bool:
    """Whether layer number `index` is for the chosen plugin: it is not below the choice, or it is of the same place."""
    since, layer = picks.of[name][0].since, layers[index]
    named = split_choice(picks.slots[name], layer.table.get(name))[0] is not None
    return index >= since or (not named and layer.name == layers[since].name)


def idle(key: str, origin: str, pick: Pick) -> str:
    """Return the warning about an option that the chosen plugin does not have."""
    return f"{key} (from {origin}) has no effect: {pick.name!r} has no such option"


def _by_plugin(
    name: str, slot: Slot, table: Mapping[str, Any], chosen: Sequence[Pick], layer: Layer, problems: list[Problem]
) -> dict[str, Any]:
    """Give each table and each option without a name to the plugin it belongs to."""
    found: dict[str, dict[str, Any]] = {}
    for word, value in table.items():
        if isinstance(value, Mapping):
            owners = [pick for pick in chosen if pick.is_called(word)][:1]
            part = value
        else:
            only = len(chosen) == 1 and word == "weight"
            owners = [pick for pick in chosen if only or word in pick.options.model_fields]
            part = {word: value}
        if len(owners) == 1:
            found.setdefault(owners[0].name, {}).update(part)
        elif not (isinstance(value, Mapping) and layer.from_file):  # files may hold tables for other choices
            problems.append(_no_owner(name, slot, word, value, owners, chosen, layer))
    for pick in chosen:
        if "weight" in found.get(pick.name, {}):
            weight = read_weight(found[pick.name].pop("weight"))
            if not pick.listed:
                pick.weight, pick.weight_origin = weight, layer.origin_of((name, pick.name, "weight"))
    return found


def _no_owner(
    name: str, slot: Slot, word: str, value: Any, owners: Sequence[Pick], chosen: Sequence[Pick], layer: Layer
) -> Problem:
    key, origin = f"{name}.{word}", layer.origin_of((name, word))
    names = [pick.name for pick in chosen]
    if isinstance(value, Mapping):
        known = [entry.name for entry in plugins.available(chosen[0].kind)]
        fix = f"add --{name} {word}" if word in known else did_you_mean(word, [*known, *names])
        return Problem(key, f"{word!r} is not chosen (chosen: {', '.join(names)})", origin, "", fix)
    if owners:
        forms = " or ".join(dotted((name, plugins.label(pick.name), word)) for pick in owners)
        message = f"{' and '.join(repr(pick.name) for pick in owners)} both have this option"
        return Problem(key, message, origin, repr(value), f"write {forms}")
    options = [f"{name}.{item}" for pick in chosen for item in pick.options.model_fields]
    others = owners_of(slot, (word,))
    hint = did_you_mean(key, options)
    fix = f"it belongs to {' and '.join(others)}: --{name} {' or '.join(others)}" if others else hint
    return Problem(key, f"no chosen {name} ({', '.join(names)}) has this option", origin, repr(value), fix)
