"""Settings whose values start a program or import a module: they count only where they are typed (`Group.code`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from motionkit import plugins
from motionkit.config._picks import typed_again
from motionkit.config._slots import Chosen, Cli, Group
from motionkit.config._tree import dotted, group_of
from motionkit.config._words import as_text
from motionkit.errors import MotionkitError


def groups(value: object, key: str = "", *, plugin: bool = False) -> Iterator[tuple[str, Group, bool]]:
    """Yield the groups of settings, those in groups and the options of plugins included.

    Args:
        value: Settings, a plugin, or a table or list of them.
        key: Its key.
        plugin: Whether it is of a plugin, each option of which has a flag.

    Yields:
        Key, group, and whether it is of a plugin.
    """
    if isinstance(value, Chosen):
        value, plugin = value.options, True
    if isinstance(value, Group):
        yield key, value, plugin
    if isinstance(value, (Group, Mapping)):
        inside = list(value if isinstance(value, Group) else value.items())
    else:
        inside = list(enumerate(value)) if isinstance(value, (tuple, list)) else []
    for name, item in inside:
        # One plugin of several is called by its name.
        part = item.name if isinstance(item, Chosen) and isinstance(value, (tuple, list)) else name
        yield from groups(item, f"{key}.{part}" if key else str(part), plugin=plugin)


@dataclass(frozen=True)
class Code:
    """A setting whose value runs code."""

    key: str  # Dotted key
    value: str  # Its value as text
    why: str  # The reason
    words: str  # The words that set it on the command line


def code_in(settings: BaseModel, prefix: str = "", *, plugin: bool = False) -> Iterator[Code]:
    """Yield the settings whose values run code.

    Args:
        settings: Settings, a group of them, or options of a plugin.
        prefix: Their key.
        plugin: Whether they are of a plugin.
    """
    for start, group, flags in groups(settings, prefix, plugin=plugin):
        for option, why in group.code().items():
            key, value = f"{start}.{option}" if start else option, getattr(group, option)
            mark = next((mark for mark in type(group).model_fields[option].metadata if isinstance(mark, Cli)), None)
            if mark.hidden if mark is not None else not flags:
                words = ["--set", f"{key}={as_text(value)}"]
            else:
                flag = (mark.flag if mark is not None else "") or dotted((key,))
                words = [flag] if value is True else [flag, as_text(value)]
            yield Code(key, as_text(value), why, shlex.join(words))


def typed_flags(snapshot: Mapping[str, Any], command: str = "") -> str:
    """Return the flags that must be typed again to use these settings, since they run code; usually empty.

    Args:
        snapshot: Settings as `Resolved.snapshot` returns them; values of other forms are skipped.
        command: Command of a trainer, whose own groups are asked too; empty for plugins alone.
    """
    kinds = {row.singular: kind for kind, row in plugins.KINDS.items()}
    own: dict[str, type[BaseModel]] = {}
    with suppress(MotionkitError):  # the trainer may be gone
        fields = plugins.get("trainers", command.replace(" ", ".")).options.model_fields if command else {}
        own = {name: group for name, field in fields.items() if (group := group_of(field)) is not None}
    flags: list[str] = []
    for name, value in snapshot.items():
        table = value if isinstance(value, Mapping) else {"name": value}
        plugin = table.get("name")
        words = (
            [plugin]
            if isinstance(plugin, str)
            else [word for word, inner in table.items() if isinstance(inner, Mapping)]
        )
        if name in own:
            flags += _code_again(own[name], table, name)
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
