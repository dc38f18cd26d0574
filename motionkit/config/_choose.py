"""Fill slots: which plugins are chosen across the layers, and which options belong to which of them.

Choosing another plugin in a higher layer drops the options that lower layers gave the old one by name. Options of a
lower layer that names no plugin (a variable, a file with nothing but ``[dataset] root``) are for whichever is chosen:
it gets those that it has, and the others are said to have no effect. For a slot that holds
several, a list (``--reward a --reward b``, ``reward = ["a", "b"]``) replaces the choice of lower layers, and tables in
files (``[reward.a]``) add to one another; options never choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from motionkit import plugins
from motionkit.config._code import flag_of, refuse_code
from motionkit.config._draft import Draft
from motionkit.config._problems import Problem, from_validation, suggest
from motionkit.config._slots import Chosen, Slot, number, split_weight
from motionkit.config._sources import Layer
from motionkit.errors import MotionkitError


@dataclass
class Pick:
    """One chosen plugin while its options are gathered.

    Attributes:
        name: What it is chosen by.
        origin: Where the choice was made.
        tables: Options for it alone, lowest layer first, each with the layer it came from.
        weight: Its weight and where that was said.
        loose: Options from below the choice, of layers that named no plugin; see `_adopt`.
    """

    name: str
    origin: str
    tables: list[tuple[Layer, dict[str, Any]]] = field(default_factory=list)
    weight: tuple[float, str] = (1.0, "default")
    loose: list[tuple[Layer, dict[str, Any]]] = field(default_factory=list)

    def answers(self, word: str) -> bool:
        """Whether `word` means this plugin: its name, its label, or the label as a variable spells it."""
        short = plugins.label(self.name)
        return word in (self.name, short, short.replace("-", "_"))


@dataclass
class Filled:
    """A filled slot: its value, the origins of everything in it, and what is wrong."""

    value: Any = None
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    errors: list[MotionkitError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def fill(name: str, slot: Slot, layers: Sequence[Layer]) -> Filled:
    """Fill the slot called `name` from `layers`, lowest first."""
    filled = Filled()
    try:
        picks = _pick_many(name, slot, layers) if slot.many else _pick_one(name, slot, layers)
        orphans = _hand_out(name, slot, picks, layers, filled) if slot.many else []
        for pick in picks:
            _adopt(name, slot, pick, filled)
        chosen = [_build(name, slot, pick, filled) for pick in picks]
        _refuse_orphans(name, orphans, picks, slot, filled)
    except MotionkitError as error:
        filled.errors.append(error)
        return filled
    if not slot.many and not chosen:
        filled.origins[name] = "default"
        return filled
    filled.value = tuple(chosen) if slot.many else chosen[0]
    return filled


def _pick_one(name: str, slot: Slot, layers: Sequence[Layer]) -> list[Pick]:
    """Return the chosen plugin; nothing when nobody chose one for a slot that may stay empty."""
    pick = Pick(next(iter(slot.default), ""), "default")
    open_tables: list[tuple[Layer, dict[str, Any]]] = []
    for layer in layers:
        raw = layer.table.get(name)
        if raw is None:
            continue
        table = dict(raw) if isinstance(raw, Mapping) else {"": raw}
        wanted = table.pop("", None) or table.pop("name", None)
        table.pop("name", None)
        if wanted is None:
            open_tables.append((layer, table))
        elif str(wanted) != pick.name:
            pick = Pick(str(wanted), layer.origin_of((name,)))
            # The same place (--set beside a flag) speaks of this plugin; lower ones of whichever it may be.
            pick.tables = [item for item in open_tables if item[0].name == layer.name]
            pick.loose = [item for item in open_tables if item[0].name != layer.name]
        else:
            pick.origin = layer.origin_of((name,))
        pick.tables.append((layer, table))
    if pick.name:
        refuse_code(name, {pick.name: pick.origin}, _typed(name, slot, layers), [flag_of(name), pick.name])
        return [pick]
    if given := [option for _, table in pick.tables for option in table]:
        raise MotionkitError(
            f"{name}.{given[0]} is set, but no {name} is chosen.",
            fix=f"choose one with --{name.replace('_', '-')} NAME",
        )
    return []


def _adopt(name: str, slot: Slot, pick: Pick, filled: Filled) -> None:
    """Give a plugin the loose options that it has, and say which it does not have."""
    if not pick.loose:
        return
    known = plugins.get(slot.kind, pick.name).options.model_fields
    for layer, table in reversed(pick.loose):
        pick.tables.insert(0, (layer, {option: value for option, value in table.items() if option in known}))
    for layer, table in pick.loose:
        filled.warnings += [
            f"{name}.{option} (from {layer.origin_of((name, option))}) has no effect: {pick.name!r} has no such option"
            for option in table
            if option not in known
        ]


def _pick_many(name: str, slot: Slot, layers: Sequence[Layer]) -> list[Pick]:
    picks = [_weighted(text, "default") for text in slot.default]
    said = False
    for layer in layers:
        raw = layer.table.get(name)
        if raw is None:
            continue
        origin = layer.origin_of((name,))
        listed = _listed(raw)
        if listed is not None:
            picks, said = [_weighted(text, origin) for text in listed], True
        elif layer.from_file and (tables := _tables(raw)):
            picks, said = ([] if not said else picks), True
            picks += [Pick(word, origin) for word in tables if not any(pick.answers(word) for pick in picks)]
    names = [pick.name for pick in picks]
    if repeated := sorted({item for item in names if names.count(item) > 1}):
        raise MotionkitError(
            f"{name} {repeated[0]!r} is chosen twice.", fix=f"choose it once: --{name} {repeated[0]}=WEIGHT"
        )
    if not picks:
        raise MotionkitError(f"no {name} is chosen.", fix=f"--{name} {slot.default[0]}")
    # Tables keep their weights when the command line lists their names; weights in a list have to be said again.
    words = [pick.name + (f"={pick.weight[0]:g}" if pick.weight[1] == pick.origin else "") for pick in picks]
    flags = [part for word in words for part in (flag_of(name), word)]
    refuse_code(name, {pick.name: pick.origin for pick in picks}, _typed(name, slot, layers), flags)
    return picks


def _typed(name: str, slot: Slot, layers: Sequence[Layer]) -> set[str]:
    """Return the plugins that are named outside of files."""
    found = set(slot.default)
    for raw in (layer.table.get(name) for layer in layers if not layer.from_file):
        said = raw.get("") or raw.get("name") if isinstance(raw, Mapping) else raw
        found |= {text.partition("=")[0].strip() for text in _listed(said) or ()} if slot.many else {str(said)}
    return found


def _hand_out(
    name: str, slot: Slot, picks: list[Pick], layers: Sequence[Layer], filled: Filled
) -> list[tuple[Layer, str, Mapping[str, Any]]]:
    """Give each table and each loose option to the plugin it belongs to; return tables nobody answers to."""
    orphans = []
    listed = {pick.name: pick.weight for pick in picks}
    for layer in layers:
        raw = layer.table.get(name)
        if not isinstance(raw, Mapping):
            continue
        for word, table in _tables(raw).items():
            owner = next((pick for pick in picks if pick.answers(word)), None)
            if owner is not None:
                owner.tables.append((layer, dict(table)))
            elif not layer.from_file:
                orphans.append((layer, word, table))
        for option, value in raw.items():
            if option and not isinstance(value, Mapping):
                _hand_out_loose(name, slot, option, value, layer, picks, filled)
    for pick in picks:
        for layer, table in pick.tables:
            if "weight" in table:
                key = f"{name}.{pick.name}.weight"
                pick.weight = (number(table.pop("weight")), layer.origin_of(tuple(key.split("."))))
        if listed[pick.name][1] not in ("default", ""):
            pick.weight = listed[pick.name]
    return orphans


def _hand_out_loose(
    name: str, slot: Slot, option: str, value: Any, layer: Layer, picks: list[Pick], filled: Filled
) -> None:
    owners = [pick for pick in picks if option in plugins.get(slot.kind, pick.name).options.model_fields]
    if len(picks) == 1 and option == "weight":
        owners = picks
    if len(owners) == 1:
        owners[0].tables.append((layer, {option: value}))
        return
    key, origin = f"{name}.{option}", layer.origin_of((name, option))
    if owners:
        forms = " or ".join(f"--{name}.{plugins.label(pick.name)}.{option.replace('_', '-')}" for pick in owners)
        message = f"{' and '.join(repr(pick.name) for pick in owners)} both have this option"
        filled.problems.append(Problem(key, message, origin, repr(value), f"write {forms}"))
        return
    known = [f"{name}.{item}" for pick in picks for item in plugins.get(slot.kind, pick.name).options.model_fields]
    message = f"no chosen {name} ({', '.join(pick.name for pick in picks)}) has this option"
    filled.problems.append(Problem(key, message, origin, repr(value), suggest(key, known)))


def _refuse_orphans(
    name: str, orphans: list[tuple[Layer, str, Mapping[str, Any]]], picks: list[Pick], slot: Slot, filled: Filled
) -> None:
    for layer, word, _ in orphans:
        origin = layer.origin_of((name, word))
        names = {entry.name for entry in plugins.available(slot.kind)}
        chosen = ", ".join(pick.name for pick in picks)
        fix = f"add --{name} {word}" if word in names else suggest(word, [*names, *(p.name for p in picks)])
        filled.problems.append(Problem(f"{name}.{word}", f"{word!r} is not chosen (chosen: {chosen})", origin, "", fix))


def _build(name: str, slot: Slot, pick: Pick, filled: Filled) -> Chosen:
    plugins.require_fit(slot.kind, pick.name, gives=slot.gives, reads=slot.reads, slot=flag_of(name))
    component = plugins.get(slot.kind, pick.name)
    prefix = (name, pick.name) if slot.many else (name,)
    draft = Draft(component.options, prefix)
    for layer, table in pick.tables:
        draft.lay(Layer(layer.name, table, layer.from_file, layer.origin))
    filled.origins[".".join((*prefix, "weight" if slot.many else "name"))] = (
        pick.weight[1] if slot.many else pick.origin
    )
    filled.origins |= draft.origins
    filled.problems += draft.problems
    try:
        options = component.options.model_validate(draft.values)
    except ValidationError as error:
        filled.problems += from_validation(error, draft.origins, prefix)
        options = component.options.model_construct()
    return Chosen(slot.kind, pick.name, options, pick.weight[0])


def _weighted(text: str, origin: str) -> Pick:
    name, weight = split_weight(str(text))
    return Pick(name, origin, weight=(1.0, "default") if weight is None else (weight, origin))


def _listed(raw: Any) -> list[str] | None:
    """Return the names when the slot is given as a list, or None when it is given as tables."""
    if isinstance(raw, Mapping):
        raw = raw.get("")
    if raw is None:
        return None
    if isinstance(raw, str):
        return [part.strip() for part in raw.split(",") if part.strip()]
    return [str(item) for item in raw]


def _tables(raw: Any) -> dict[str, Mapping[str, Any]]:
    if not isinstance(raw, Mapping):
        return {}
    return {word: table for word, table in raw.items() if isinstance(table, Mapping)}


def chosen_names(name: str, slot: Slot, layers: Sequence[Layer]) -> list[str]:
    """Return what a slot is filled with, without reading any option; for flags that follow the choice."""
    picks = _pick_many(name, slot, layers) if slot.many else _pick_one(name, slot, layers)
    return [pick.name for pick in picks]
