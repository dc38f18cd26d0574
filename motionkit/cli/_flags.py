"""Options of a command, generated from its settings: one for each marked field and for each option of a chosen plugin.

Every option is text for Typer: pydantic parses it later, together with what files and variables hold, so that all
problems are reported at once. "Not given" is None and lets the lower layers show through.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import GenericAlias
from typing import Annotated, Any

import typer

from motionkit import plugins
from motionkit.config import Draft, Leaf, Slot, dotted, leaves


@dataclass(frozen=True)
class Flag:
    """One option of a command.

    Attributes:
        names: Its spellings, the first shown first.
        path: Key it sets.
        kind: Type that Typer parses: ``str``, ``list[str]`` for an option that repeats, ``bool`` for a switch, a tuple
            for one that takes several words.
        help: Description with limits and default, plain text.
        metavar: What to show for its value.
        panel: Help panel.
        hidden: Keep it out of help (it still works).
        words: Completions of its value.
    """

    names: tuple[str, ...]
    path: tuple[str, ...]
    kind: Any
    help: str
    metavar: str
    panel: str
    hidden: bool = False
    words: tuple[str, ...] = ()

    @property
    def spellings(self) -> set[str]:
        """Every name, ``--no-lora`` beside ``--lora``."""
        return {part for name in self.names for part in name.split("/")}

    def parameter(self, index: int) -> inspect.Parameter:
        """Return it as a keyword-only parameter of a Typer callback."""
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
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[self.kind | None, option]
        )

    def _complete(self, incomplete: str) -> list[str]:
        return [word for word in self.words if word.startswith(incomplete)]


def flags(draft: Draft[Any]) -> list[Flag]:
    """Return the options of a command whose plugins are chosen.

    Raises:
        TypeError: Two settings of the model have one flag.
    """
    prefixed = {name for name, slot in draft.picks.slots.items() if not slot.spread}
    found = [_choice(draft, name, slot) for name, slot in draft.picks.slots.items()]
    options: list[Leaf] = []
    for leaf in leaves(draft.model):
        if leaf.cli is not None and leaf.cli.hidden:
            continue
        if leaf.path[0] in prefixed and len(leaf.path) > 1:
            options.append(leaf)
        elif leaf.cli is not None:
            panel = leaf.path[0].replace("_", " ").capitalize() if len(leaf.path) > 1 else "Settings"
            found.append(_flag(leaf, (leaf.flag,), leaf.path, leaf.cli.panel or panel))
    taken: dict[str, tuple[str, ...]] = {}
    for flag in found:
        for name in flag.spellings:
            if name in taken:
                raise TypeError(f"{'.'.join(taken[name])} and {'.'.join(flag.path)} both have the flag {name}")
            taken[name] = flag.path
    for flag in _option_flags(draft, options):
        names = tuple(name for name in flag.names if not taken.keys() & set(name.split("/")))
        taken |= dict.fromkeys(flag.spellings, flag.path)
        found += [replace(flag, names=names)] if names else []
    return found


def _choice(draft: Draft[Any], name: str, slot: Slot) -> Flag:
    """Return the flag that chooses the plugin of a slot."""
    names = tuple(plugins.fitting(slot.kind, gives=slot.gives, reads=slot.reads))
    own = draft.declared.model_fields[name].description
    text = own or plugins.KINDS[slot.kind].question or f"Which {name.replace('_', ' ')} to use."
    listed = f" One of: {', '.join(names)}; or DIST:NAME, ./file.py:obj." if names else ""
    help_text = f"{text}{listed} (default: {', '.join(slot.default) or 'none'})"
    kind, metavar = (list[str], "NAME[=WEIGHT]") if slot.many else (str, "NAME")
    return Flag((dotted((name,)),), (name,), kind, help_text, metavar, "What", words=names)


def _option_flags(draft: Draft[Any], options: Sequence[Leaf]) -> Iterator[Flag]:
    """Yield the flags of plugin options; ``--reward.alpha`` beside ``--reward.tmr-dense.alpha``.

    The short one is shown when only one chosen plugin has the option. When several have it the short one is hidden,
    and refused in words when it is used.
    """
    slots, owners = draft.picks.slots, dict[tuple[str, ...], list[str]]()
    for leaf in options:
        if slots[leaf.path[0]].many:
            owners.setdefault((leaf.path[0], *leaf.path[2:]), []).append(leaf.path[1])
    for leaf in options:
        slot, (name, *rest) = slots[leaf.path[0]], leaf.path
        alias = (leaf.cli.flag,) if leaf.cli is not None and leaf.cli.flag else ()
        title = plugins.KINDS[slot.kind].singular.capitalize()
        if not slot.many:
            yield _flag(
                leaf, (dotted(leaf.path), *alias), leaf.path, f"{title} {plugins.label(draft.picks.of[name][0].name)}"
            )
            continue
        label, short = plugins.label(rest[0]), (name, *rest[1:])
        shared, panel = len(owners[short]) > 1, f"{title} {label}"
        yield _flag(leaf, (dotted((name, label, *rest[1:])),), leaf.path, panel, hidden=not shared)
        if owners[short][0] == rest[0]:
            yield _flag(leaf, (dotted(short), *alias), short, panel, hidden=shared)


def _flag(leaf: Leaf, names: tuple[str, ...], path: tuple[str, ...], panel: str, *, hidden: bool = False) -> Flag:
    default = f"default: {leaf.default_text}" if leaf.default_text not in ("", "required") else leaf.default_text
    facts = "; ".join(part for part in (leaf.limits, default) if part)
    words = leaf.cli.values if leaf.cli is not None else 1
    return Flag(
        names=tuple(_switch(name) if leaf.is_switch else name for name in names),
        path=path,
        kind=_kind(leaf, words),
        help=f"{leaf.help} ({facts})" if facts else leaf.help,
        metavar=_metavar(leaf, words),
        panel=panel,
        hidden=hidden,
        words=leaf.choices,
    )


def _kind(leaf: Leaf, words: int) -> Any:
    if words > 1:
        return GenericAlias(tuple, (str,) * words)
    return bool if leaf.is_switch else list[str] if leaf.is_many else str


def _metavar(leaf: Leaf, words: int) -> str:
    if leaf.is_switch:
        return ""
    if words > 1:
        return leaf.type_name.replace(",", " ")
    return f"<{leaf.type_name}>" if leaf.choices else leaf.type_name


def _switch(name: str) -> str:
    positive = "--" + name.removeprefix("--no-") if name.startswith("--no-") else name
    return f"{positive}/--no-{positive.removeprefix('--')}"
