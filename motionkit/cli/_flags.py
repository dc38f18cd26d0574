"""Options generated from a settings model and from the options of the plugins that fill its slots.

Every option is text for Typer: pydantic parses it later, together with what files and variables say, so that all
problems are reported at once. "Not given" is None and lets the lower layers show through.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from motionkit import plugins
from motionkit.config import MISSING, Chosen, Group, Leaf, leaves
from motionkit.config._slots import Slot
from motionkit.config._tree import choices, is_bool, is_many, limits, type_name
from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class Flag:
    """One option of a command.

    Attributes:
        names: Its spellings, the first shown first.
        path: Key it sets.
        annotation: Type of the setting.
        help: Description with limits and default, plain text.
        metavar: What to show for its value.
        panel: Help panel.
        hidden: Keep it out of help (it still works).
        words: Completions of its value.
    """

    names: tuple[str, ...]
    path: tuple[str, ...]
    annotation: Any
    help: str
    metavar: str
    panel: str
    hidden: bool = False
    words: tuple[str, ...] = ()

    def parameter(self, index: int) -> inspect.Parameter:
        """Return it as a keyword-only parameter of a Typer callback."""
        kind: Any = bool if is_bool(self.annotation) else list[str] if is_many(self.annotation) else str
        option = typer.Option(
            *self.names,
            help=self.help.replace("[", "\\["),
            metavar=self.metavar,
            show_default=False,
            rich_help_panel=self.panel,
            hidden=self.hidden,
            autocompletion=self._complete if self.words else None,
        )
        name = f"p{index}_{re.sub(r'[^a-z0-9]+', '_', '_'.join(self.path).lower())}"
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
        )

    def _complete(self, incomplete: str) -> list[str]:
        return [word for word in self.words if word.startswith(incomplete)]


def flags(model: type[Group], chosen: dict[str, Sequence[str]]) -> list[Flag]:
    """Return the options of `model` when its slots hold what `chosen` names.

    Raises:
        TypeError: Two settings of the model have one flag.
    """
    found = [_slot_flag(leaf, leaf.slot) for leaf in leaves(model) if leaf.slot is not None]
    for leaf in leaves(model):
        if leaf.cli is not None and not leaf.cli.hidden:
            found.append(
                _flag(leaf, (leaf.cli.flag or dotted(leaf.path),), leaf.path, leaf.cli.panel or _panel(leaf.path))
            )
    _refuse_twins(found)
    taken = {name for flag in found for name in _spellings(flag)}
    for leaf in leaves(model):
        if leaf.slot is not None:
            for flag in _option_flags(leaf.path[0], leaf.slot, chosen.get(leaf.path[0], ())):
                names = tuple(name for name in flag.names if not taken & set(_split(name)))
                if names:
                    taken.update(part for name in names for part in _split(name))
                    found.append(replace(flag, names=names))
    return found


def dotted(path: Sequence[str]) -> str:
    """Return the flag of a key: ``--reward.lambda-skate``."""
    return "--" + ".".join(path).replace("_", "-")


def _slot_flag(leaf: Leaf, slot: Slot) -> Flag:
    names = tuple(plugins.fitting(slot.kind, gives=slot.gives, reads=slot.reads))
    text = leaf.help or plugins.KINDS[slot.kind].question or f"Which {leaf.path[-1].replace('_', ' ')} to use."
    listed = f" One of: {', '.join(names)}; or DIST:NAME, ./file.py:obj." if names else ""
    annotation: Any = list[str] if slot.many else str
    metavar = "NAME[=WEIGHT]" if slot.many else "NAME"
    help_text = f"{text}{listed} (default: {', '.join(slot.default) or 'none'})"
    return Flag((dotted(leaf.path),), leaf.path, annotation, help_text, metavar, _panel(leaf.path, slot), words=names)


def _option_flags(name: str, slot: Slot, chosen: Sequence[str]) -> Iterator[Flag]:
    owners: dict[tuple[str, ...], list[str]] = {}
    found: list[tuple[str, Leaf]] = []
    for plugin in chosen:
        try:
            options = plugins.get(slot.kind, plugin).options
        except MotionkitError:  # resolving reports it, with its origin
            continue
        for leaf in leaves(options):
            if leaf.cli is None or not leaf.cli.hidden:
                owners.setdefault(leaf.path, []).append(plugin)
                found.append((plugin, leaf))
    for plugin, leaf in found:
        shared = len(owners[leaf.path]) > 1
        label = plugins.label(plugin)
        panel = f"{plugins.KINDS[slot.kind].singular.capitalize()} {label}"
        alias = (leaf.cli.flag,) if leaf.cli is not None and leaf.cli.flag else ()
        if not slot.many:
            yield _flag(leaf, (dotted((name, *leaf.path)), *alias), (name, *leaf.path), panel)
            continue
        own = _flag(leaf, (dotted((name, label, *leaf.path)),), (name, label, *leaf.path), panel, hidden=not shared)
        yield own
        if owners[leaf.path][0] == plugin:  # the loose form, once; it is refused, in words, when two plugins answer
            yield _flag(leaf, (dotted((name, *leaf.path)), *alias), (name, *leaf.path), panel, hidden=shared)


def _flag(leaf: Leaf, names: tuple[str, ...], path: tuple[str, ...], panel: str, *, hidden: bool = False) -> Flag:
    annotation = leaf.field.annotation
    switch = is_bool(annotation)
    return Flag(
        names=tuple(_switch(name) if switch else name for name in names),
        path=path,
        annotation=annotation,
        help=_help(leaf),
        metavar="" if switch else f"<{type_name(annotation)}>" if choices(annotation) else type_name(annotation),
        panel=panel,
        hidden=hidden,
        words=choices(annotation),
    )


def _help(leaf: Leaf) -> str:
    facts = [part for part in (limits(leaf.field), _default(leaf.default)) if part]
    return f"{leaf.help} ({'; '.join(facts)})" if facts else leaf.help


def _default(value: Any) -> str:
    if value is MISSING:
        return "required"
    if value is None or value == () or isinstance(value, Chosen):
        return ""
    if isinstance(value, bool):
        return f"default: {'on' if value else 'off'}"
    if isinstance(value, (tuple, list)):
        return f"default: {','.join(str(item) for item in value)}"
    return f"default: {value}" if str(value) else ""


def _panel(path: tuple[str, ...], slot: Slot | None = None) -> str:
    if slot is not None:
        return "What"
    return path[0].replace("_", " ").capitalize() if len(path) > 1 else "Settings"


def _switch(name: str) -> str:
    positive = "--" + name.removeprefix("--no-") if name.startswith("--no-") else name
    return f"{positive}/--no-{positive.removeprefix('--')}"


def _split(name: str) -> list[str]:
    return name.split("/")


def _spellings(flag: Flag) -> list[str]:
    return [part for name in flag.names for part in _split(name)]


def _refuse_twins(found: Sequence[Flag]) -> None:
    owners: dict[str, tuple[str, ...]] = {}
    for flag in found:
        for name in _spellings(flag):
            if name in owners:
                raise TypeError(f"{'.'.join(owners[name])} and {'.'.join(flag.path)} both have the flag {name}")
            owners[name] = flag.path
