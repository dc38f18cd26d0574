"""Phase 2: one ordinary nested model in which the options of the chosen plugins are fields like all others.

`concrete` makes the model, and `own_table` turns what a layer holds for a slot into a table of that model. Laying the
layers over each other, validation and errors then know no slots. `settings_of` puts the plugins back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, create_model

from motionkit import plugins
from motionkit.config._choose import Pick, Picks, owners_of, read_weight, split_choice
from motionkit.config._group import Group
from motionkit.config._problems import Problem
from motionkit.config._slots import Slot
from motionkit.config._tree import dotted, group_of
from motionkit.config.sources import Layer
from motionkit.errors import MotionkitError, did_you_mean


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
    for name, field in options.model_fields.items():
        own, shared = group_of(field), group_of(model.model_fields[name]) if name in model.model_fields else None
        if own is None or shared is None or not issubclass(own, shared):
            raise TypeError(f"{options.__name__}.{name} must be a group that extends {model.__name__}.{name}")
    return {name: (field.annotation, field) for name, field in options.model_fields.items()}


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
