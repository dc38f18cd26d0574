"""The plugins in the slots of settings: how they are chosen, and how their options become settings.

First `choose` fills the slots from the layers; no option is read. Then `concrete` makes one ordinary nested model in
which the options of the chosen plugins are fields like all others, and `own_table` turns a layer's value for a slot
into a table of that model, so that merging, validation and errors need not know about slots. `settings_of` puts the
plugins back. `choose_one` and `choose_from_file` choose a single plugin, from Python or from a file.

A higher layer wins. For a slot that holds several plugins a list (``--reward a --reward b``, ``reward = ["a", "b"]``)
replaces the choice of lower layers, and tables in files (``[reward.a]``) add to one another. Options never choose.

``./file.py:attribute`` is code. It runs if its name was typed: on the command line, in a ``MOTIONKIT_*`` variable, or
as a `Chosen` in Python. A settings file or a run folder may come from anywhere, so a Python file that it names is
refused unless the same name was typed as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ValidationError, create_model

from motionkit import plugins
from motionkit.config._other_words import which_setting
from motionkit.config._problems import Problem
from motionkit.config._slots import Chosen, Cli, Group, Slot, slots_of
from motionkit.config._tree import as_text, dotted, group_of, leaves
from motionkit.config.sources import Layer, dotted_keys
from motionkit.errors import MotionkitError, did_you_mean


@dataclass
class Pick:
    """One chosen plugin."""

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


@dataclass
class Picks:
    """The chosen plugins of all slots."""

    slots: Mapping[str, Slot]  # By field name
    of: dict[str, list[Pick]] = field(default_factory=dict)  # The chosen plugins of each slot, by field name
    # Errors of slots that could not be filled and have their default.
    errors: list[MotionkitError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # Oddities that are not errors
    notes: list[str] = field(default_factory=list)  # Lines for the user about automatic choices


def choose(model: type[BaseModel], layers: Sequence[Layer], typed: Iterable[str] = ()) -> Picks:
    """Fill the slots of `model` from `layers`.

    Args:
        model: Settings model.
        layers: Files, variables and the command line, lowest first.
        typed: Words of the command line whose flags are not in `layers` yet.
    """
    picks = Picks(slots_of(model))
    for name, slot in sorted(picks.slots.items(), key=lambda item: item[1].decide is not None):
        try:
            picks.of[name] = _pick(name, slot, layers)
            _mark_typed(name, slot, picks.of[name], layers)
            _decide(slot, picks, picks.of[name], layers, typed)
        except MotionkitError as error:
            picks.errors.append(error)
            try:  # keep the flags of typed plugins, so that Typer raises no other error before this one
                top = [layer for layer in layers[-1:] if not layer.from_file]
                picks.of[name] = _pick(name, slot, top)
                _mark_typed(name, slot, picks.of[name], top)
            except MotionkitError:
                picks.of[name] = _pick(name, slot, ())
    return picks


def _pick(name: str, slot: Slot, layers: Sequence[Layer]) -> list[Pick]:
    """Return the chosen plugins; none if a slot that may stay empty was not filled."""
    picks = [_read(slot, word, "default", 0) for word in slot.default]
    by_default = True
    for index, layer in enumerate(layers):
        choice, table = split_choice(slot, layer.table.get(name))
        tables = [word for word, value in table.items() if isinstance(value, Mapping)]
        origin = layer.origin_of((name,))
        if choice is not None:
            below, picks = picks, [_read(slot, item, origin, index) for item in choice]
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
    return picks


def _read(slot: Slot, item: Any, origin: str, index: int) -> Pick:
    """Read ``NAME``, ``NAME=WEIGHT`` or a `Chosen`."""
    if isinstance(item, Chosen):
        return Pick(slot.kind, item.name, origin, index, item.weight, origin, listed=True, given=item)
    name, equals, weight = str(item).strip().partition("=") if slot.many else (str(item), "", "")
    if not name:
        raise MotionkitError(f"{item!r} has no plugin name.", fix="write NAME or NAME=WEIGHT.")
    if equals:
        return Pick(slot.kind, name, origin, index, read_weight(weight), origin, listed=True)
    return Pick(slot.kind, name, origin, index)


def read_weight(value: Any) -> float:
    """Return a weight as a finite number."""
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = float("nan")
    if weight != weight or abs(weight) == float("inf"):
        raise MotionkitError(f"weight {value!r} is not a finite number.", fix="write NAME=WEIGHT, such as physics=0.1.")
    return weight


def split_choice(slot: Slot, raw: Any) -> tuple[list[Any] | None, dict[str, Any]]:
    """Split a layer's value for a slot into the choice (None if it makes none) and the options."""
    table = dict(raw) if isinstance(raw, Mapping) else {"": raw}
    choice = table.pop("", None)
    if not slot.many:
        named = table.pop("name", None)
        return [choice or named] if choice or named else None, table
    if isinstance(choice, str):
        return [part.strip() for part in choice.split(",") if part.strip()], table
    return choice if choice is None else list(choice) if isinstance(choice, (list, tuple)) else [choice], table


def _mark_typed(name: str, slot: Slot, picks: Sequence[Pick], layers: Sequence[Layer]) -> None:
    """Mark the plugins whose name was typed; refuse Python files that only settings files name."""
    typed = {*slot.default}
    for layer in layers:
        typed |= layer.code or set()
        if layer.typed:
            typed |= {_read(slot, item, "", 0).name for item in split_choice(slot, layer.table.get(name))[0] or ()}
    for pick in picks:
        pick.typed = pick.given is not None or pick.name in typed
        if plugins.is_file(pick.name) and not pick.typed:
            # Weights in tables still apply to typed names; weights in a list have to be typed again.
            words = [item.name + (f"={item.weight:g}" if item.listed else "") for item in picks]
            raise plugins.code_error(f"{pick.origin}: {name}", pick.name, typed_again(name, words))


def typed_again(name: str, words: Iterable[str]) -> list[str]:
    """Return the flags that choose plugins for a slot."""
    return [part for word in words for part in (dotted((name,)), word)]


def _decide(slot: Slot, filled: Picks, chosen: Sequence[Pick], layers: Sequence[Layer], typed: Iterable[str]) -> None:
    if slot.decide is None:
        return
    other_names = {name: [pick.name for pick in picks] for name, picks in filled.of.items() if picks is not chosen}
    for pick in chosen:
        name, note = slot.decide(pick.name, set(_keys(slot, layers, typed)), other_names)
        if name != pick.name:
            pick.name, pick.origin = name, f"{pick.name}, {pick.origin}"
        filled.notes += [note] if note else []


def _keys(slot: Slot, layers: Sequence[Layer], typed: Iterable[str]) -> Iterator[str]:
    """Yield the dotted keys that the layers set, and those of typed flags that any plugin of the slot's kind has."""
    for layer in layers:
        yield from dotted_keys(layer.table)
    words = {word.partition("=")[0].replace("--no-", "--") for word in typed}
    for leaf in (leaf for _, options in installed(slot) for leaf in leaves(options)) if words else ():
        if leaf.flag in words:
            yield leaf.key


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


def concrete(model: type[BaseModel], picks: Picks) -> type[BaseModel]:
    """Return `model` with the options of the chosen plugins in place of its slots.

    The error of a plugin that cannot be used goes to `picks.errors`, and its slot stays empty.

    Raises:
        TypeError: A group of a plugin does not extend the settings' group of the same name.
    """
    fields: dict[str, Any] = {}
    for name, slot in picks.slots.items():
        by_plugin: dict[str, Any] = {}
        for pick in picks.of[name]:
            try:
                by_plugin[pick.name] = (Annotated[pick.options, AfterValidator(pick.chosen)], ...)
                if pick.given is None:
                    plugins.require_fit(
                        slot.kind, pick.name, gives=slot.gives, reads=slot.reads, slot=dotted((name,)), typed=pick.typed
                    )
            except MotionkitError as error:
                picks.errors.append(_naming(name, slot, pick, error))
                continue
            if slot.spread:
                fields |= _spread(model, pick.options)
            elif pick.given is not None:
                by_plugin[pick.name] = (Any, pick.given)
        if slot.many:
            fields[name] = (Annotated[create_model(name, __base__=Group, **by_plugin), AfterValidator(_as_tuple)], ...)
        else:
            fields[name] = (Any, None) if slot.spread or not by_plugin else by_plugin[picks.of[name][0].name]
    return create_model(model.__name__, __base__=model, **fields) if fields else model


def _naming(name: str, slot: Slot, pick: Pick, error: MotionkitError) -> MotionkitError:
    """Let an error about a plugin name the setting, where that has another name than the kind."""
    if name != plugins.KINDS[slot.kind].singular and not isinstance(error, plugins.CodeError):
        where = dotted((name,)) if pick.origin == "command line" else f"{pick.origin}: {name}"
        error.message = f"{where} {pick.name}: {error.message}"
    return error


def _as_tuple(group: BaseModel) -> tuple[Any, ...]:
    return tuple(getattr(group, name) for name in type(group).model_fields)


def _spread(model: type[BaseModel], options: type[BaseModel]) -> dict[str, Any]:
    for name, info in options.model_fields.items():
        group, shared = group_of(info), group_of(model.model_fields[name]) if name in model.model_fields else None
        if group is None or shared is None or not issubclass(group, shared):
            raise TypeError(f"{options.__name__}.{name} must be a group that extends {model.__name__}.{name}")
    return {name: (info.annotation, info) for name, info in options.model_fields.items()}


def settings_of(validated: BaseModel, picks: Picks) -> dict[str, Any]:
    """Return the values of the declared model from a valid concrete one.

    Raises:
        ValidationError: Groups of a spread plugin do not fit each other.
    """
    values = dict(validated)
    for name, slot in picks.slots.items():
        if slot.spread:
            (pick,) = picks.of[name]
            parts = {part: values[part] for part in pick.options.model_fields}
            values[name] = pick.chosen(pick.options.model_validate(parts))
    return values


def own_table(name: str, picks: Picks, index: int, layers: Sequence[Layer], problems: list[Problem]) -> dict[str, Any]:
    """Return the options that layer `index` sets for the plugins in slot `name`, as a table of the concrete model."""
    slot, layer, chosen = picks.slots[name], layers[index], picks.of[name]
    choice, table = split_choice(slot, layer.table.get(name))
    if slot.many:
        return _by_plugin(name, slot, table, chosen, layer, problems)
    if table and not chosen:
        raise MotionkitError(
            f"{name}.{next(iter(table))} is set, but no {name} is chosen.",
            fix=f"choose one with {dotted((name,))} NAME",
        )
    if not table or belongs(picks, name, index, layers):
        return table
    if choice:  # its options are another plugin's
        return {}
    # A lower layer that names no plugin applies to any plugin, as far as it has the options.
    known = chosen[0].options.model_fields
    for option in table:
        if option not in known:
            picks.warnings.append(idle(f"{name}.{option}", layer.origin_of((name, option)), chosen[0]))
    return {option: value for option, value in table.items() if option in known}


def belongs(picks: Picks, name: str, index: int, layers: Sequence[Layer]) -> bool:
    """Whether layer `index` applies to the chosen plugin: it is not below the choice, or has the same source."""
    since, layer = picks.of[name][0].since, layers[index]
    named = split_choice(picks.slots[name], layer.table.get(name))[0] is not None
    return index >= since or (not named and layer.name == layers[since].name)


def idle(key: str, origin: str, pick: Pick) -> str:
    """Return the warning about an option that the chosen plugin does not have."""
    return f"{key} (from {origin}) has no effect: {pick.name!r} has no such option"


def _by_plugin(
    name: str, slot: Slot, table: Mapping[str, Any], chosen: Sequence[Pick], layer: Layer, problems: list[Problem]
) -> dict[str, Any]:
    """Assign each table, and each option without a plugin's name, to the plugin it belongs to."""
    tables: dict[str, dict[str, Any]] = {}
    for word, value in table.items():
        if isinstance(value, Mapping):
            owners = [pick for pick in chosen if pick.is_called(word)][:1]
            part = value
        else:
            only = len(chosen) == 1 and word == "weight"
            owners = [pick for pick in chosen if only or word in pick.options.model_fields]
            part = {word: value}
        if len(owners) == 1:
            tables.setdefault(owners[0].name, {}).update(part)
        elif not (isinstance(value, Mapping) and layer.from_file):  # files may hold tables for other choices
            problems.append(_no_owner(name, slot, word, value, owners, chosen, layer))
    for pick in chosen:
        if "weight" in tables.get(pick.name, {}):
            weight = read_weight(tables[pick.name].pop("weight"))
            if not pick.listed:
                pick.weight, pick.weight_origin = weight, layer.origin_of((name, pick.name, "weight"))
    return tables


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
    hint = which_setting(key, options)
    fix = f"it belongs to {' and '.join(others)}: --{name} {' or '.join(others)}" if others else hint
    return Problem(key, f"no chosen {name} ({', '.join(names)}) has this option", origin, repr(value), fix)


def choose_one(kind: str, name: str, options: Mapping[str, Any], *, typed: bool = False) -> Chosen:
    """Choose a plugin from Python.

    Logs a warning if another package has a plugin of the same name as a built-in.

    Args:
        kind: Plugin kind.
        name: Name of the plugin.
        options: Its options.
        typed: Whether the user typed the name or wrote it in Python, so that it may be a Python file.
    """
    plugins.warn_hidden(kind, name)
    # Paths as text: an option may take words such as "starter" as well as paths.
    plain = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    model = plugins.get(kind, name, typed=typed).options
    try:
        return Chosen(kind, name, model.model_validate(plain))
    except ValidationError as error:
        known = [leaf.key for leaf in leaves(model)]
        problems = "; ".join(_problem(item["loc"], item["type"], item["msg"], known) for item in error.errors())
        raise MotionkitError(f"{name}: {problems}", fix=f"motionkit plugins show {kind} {name}") from error


def choose_from_file(kind: str, table: object) -> Chosen | None:
    """Choose the plugin that a file names, such as the settings of a run; options that run code are refused.

    Args:
        kind: Plugin kind.
        table: Content of the file: ``name`` and the options.

    Returns:
        The plugin; None if `table` names none.
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        return None
    singular, name = plugins.KINDS[kind].singular, str(table["name"])
    chosen = choose_one(kind, name, {str(key): value for key, value in table.items() if key != "name"})
    for found in code_in(chosen.options, singular, plugin=True):
        raise MotionkitError(
            f"the file sets {found.key.removeprefix(f'{singular}.')}, which counts only where it is typed.",
            why=found.why,
            fix=f"if you trust it, add to the command: --{singular} {name} {found.words}",
        )
    return chosen


def typed_flags(snapshot: Mapping[str, Any], command: str = "") -> str:
    """Return the flags that must be typed again to use these settings, since they run code; usually empty.

    Args:
        snapshot: Settings as `Resolved.snapshot` returns them; values of other forms are skipped.
        command: Command of a trainer, whose own groups are asked too; empty for plugins alone.
    """
    kinds = {row.singular: kind for kind, row in plugins.KINDS.items()}
    groups: dict[str, type[BaseModel]] = {}
    with suppress(MotionkitError):  # the trainer may be gone
        fields = plugins.get("trainers", command.replace(" ", ".")).options.model_fields if command else {}
        groups = {name: group for name, field in fields.items() if (group := group_of(field)) is not None}
    flags = []
    for name, value in snapshot.items():
        table = value if isinstance(value, Mapping) else {"name": value}
        plugin = table.get("name")
        words = (
            [plugin]
            if isinstance(plugin, str)
            else [word for word, inner in table.items() if isinstance(inner, Mapping)]
        )
        if name in groups:
            flags += _code_again(groups[name], table, name)
        elif any(plugins.is_file(word) for word in words):
            flags.append(shlex.join(typed_again(name, words)))
        elif name in kinds:
            for word in words:
                options, prefix = (table, name) if word == plugin else (table[word], f"{name}.{plugins.label(word)}")
                options = {key: inner for key, inner in options.items() if key not in ("name", "weight")}
                with suppress(MotionkitError):  # a plugin may be gone
                    flags += _code_again(plugins.get(kinds[name], word).options, options, prefix, plugin=True)
    return " ".join(flags)


def _code_again(model: type[BaseModel], table: Mapping[str, Any], prefix: str, *, plugin: bool = False) -> list[str]:
    """Return the words for each setting that runs code; none if another version wrote the table."""
    try:
        return [found.words for found in code_in(model.model_validate(table), prefix, plugin=plugin)]
    except ValidationError:
        return []


@dataclass(frozen=True)
class Code:
    """A setting whose value runs code."""

    key: str  # Dotted key
    value: str  # Its value as text
    why: str  # The reason
    words: str  # The words that set it on the command line


def code_in(options: BaseModel, prefix: str = "", *, plugin: bool = False) -> Iterator[Code]:
    """Yield the settings whose values run code: of a group, of the groups in it, and of the plugins in its slots.

    Args:
        options: The group.
        prefix: Its key.
        plugin: Whether it is of a plugin, each option of which has a flag.
    """
    if not isinstance(options, Group):
        return
    start = f"{prefix}." if prefix else ""
    for option, why in options.code().items():
        key, value = f"{start}{option}", getattr(options, option)
        mark = next((mark for mark in type(options).model_fields[option].metadata if isinstance(mark, Cli)), None)
        if (mark is None and not plugin) or (mark is not None and mark.hidden):
            words = ["--set", f"{key}={as_text(value)}"]
        else:
            flag = (mark.flag if mark is not None else "") or dotted((key,))
            words = [flag] if value is True else [flag, as_text(value)]
        yield Code(key, as_text(value), why, shlex.join(words))
    for name, value in options:
        yield from _code_below(value, f"{start}{name}", plugin=plugin)


def _code_below(value: object, key: str, *, plugin: bool, many: bool = False) -> Iterator[Code]:
    """Yield what runs code in a field's value: a group, a plugin, or several of them."""
    if isinstance(value, Chosen):
        yield from code_in(value.options, f"{key}.{value.name}" if many else key, plugin=True)
    elif isinstance(value, Group):
        yield from code_in(value, key, plugin=plugin)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _code_below(
                item, key if isinstance(item, Chosen) else f"{key}.{index}", plugin=plugin, many=True
            )
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _code_below(item, f"{key}.{name}", plugin=plugin)


def _problem(path: Sequence[int | str], kind: str, message: str, known: Sequence[str]) -> str:
    """Return one pydantic error in words; an unknown option comes with a similar known one."""
    key = ".".join(map(str, path))
    if kind != "extra_forbidden":
        return f"{key}: {message}"
    hint = which_setting(key, known)
    return f"there is no option {key!r}" + (f"; {hint}" if hint else "")
