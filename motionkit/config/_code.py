"""Settings whose values start a program or import a module: they count only where they are typed (`Group.code`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from motionkit.config._slots import Chosen, Cli, Group
from motionkit.config._tree import as_text, dotted


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
