"""The settings of a run as words of a command line: those that set them again, and those that must be typed again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from motionkit import plugins
from motionkit.config import MISSING, Leaf, as_text, code_in, dotted, group_of, leaves, slots_of
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
            flags.append(shlex.join([part for word in words for part in (dotted((name,)), word)]))
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
