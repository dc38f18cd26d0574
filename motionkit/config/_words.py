"""Settings as the words of a command line that sets them again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from motionkit import plugins
from motionkit.config._slots import slots_of
from motionkit.config._tree import MISSING, Leaf, dotted, leaves
from motionkit.errors import MotionkitError


def words_for(model: type[BaseModel], settings: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """Return the words of a command line that repeat some settings of a run.

    Args:
        model: Settings of the command.
        settings: Settings as `Resolved.snapshot` returns them, of this command or of another.
        fields: Names of slots that hold one plugin, of groups and of settings; those that `model` lacks are skipped.

    Returns:
        Flags and values of all settings that differ from the command's defaults.

    Example:
        >>> from motionkit.plugins import get
        >>> model = get("trainers", "grpo").options
        >>> words_for(model, {"dataset": {"name": "humanml", "root": "my data", "fps": 20.0}, "seed": 3}, ("dataset",))
        ['--dataset', 'humanml', '--dataset.root', 'my data']
    """
    slots = slots_of(model)
    settings_leaves = list(leaves(model))
    words: list[str] = []
    for key in fields:
        if key in slots:
            words += slot_words(key, settings.get(key), slots[key].kind, default="".join(slots[key].default))
            continue
        for leaf in settings_leaves:
            if leaf.path[0] == key:
                words += _words(leaf, _at(settings, leaf.path), leaf.flag if leaf.cli is not None else "")
    return words


def slot_words(field: str, table: object, kind: str, *, default: str = "") -> list[str]:
    """Return the words of a command line that choose a plugin, with its options that differ from their defaults.

    Args:
        field: Name of the slot, such as ``dataset``.
        table: ``{"name": ..., options}``, as in config.json of a run; no words for anything else.
        kind: Plugin kind.
        default: Name of the command's default plugin.
    """
    if not isinstance(table, Mapping) or not isinstance(name := table.get("name"), str):
        return []
    words = [] if name == default else [dotted((field,)), name]
    with suppress(MotionkitError):  # a plugin may be gone; a file of code is not run to learn its options
        if not plugins.is_file(name):
            table = plugins.recorded(kind, name, table)
            for leaf in leaves(plugins.get(kind, name).options):
                hidden = leaf.cli is not None and leaf.cli.hidden
                flag = "" if hidden else dotted((field, *leaf.path))
                words += _words(leaf, _at(table, leaf.path), flag, key=".".join((field, *leaf.path)))
            return words
    for option, value in table.items():
        if option != "name" and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            words += [dotted((field, option)), str(value)]
    return words


def _words(leaf: Leaf, value: Any, flag: str, *, key: str = "") -> Iterator[str]:
    """Yield the words that set one setting; none if it has its default."""
    default = None if leaf.default is MISSING else to_jsonable_python(leaf.default, fallback=str)
    if value is MISSING or to_jsonable_python(value, fallback=str) == default:
        return
    if not flag or value is None:
        yield from ("--set", f"{key or leaf.key}={as_text(value)}")
    elif leaf.is_switch:
        positive = "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag
        yield positive if value else f"--no-{positive.removeprefix('--')}"
    elif isinstance(value, (list, tuple)) and leaf.cli is not None and leaf.cli.values > 1:
        yield flag
        yield from map(as_text, value)
    elif leaf.is_many and isinstance(value, (list, tuple)):
        for item in value:
            yield flag
            yield as_text(item)
    else:
        yield flag
        yield as_text(value)


def _at(table: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = table
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def as_text(value: Any) -> str:
    """Return a value as it is written after a flag or in ``--set``."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return ",".join(map(as_text, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)
