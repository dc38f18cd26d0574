"""Setting top-level keys of YAML and TOML texts while leaving the rest of them as it is."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

import yaml


def edit_yaml(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set at the top level of a block mapping.

    Args:
        text: YAML with one document; empty is fine.
        changes: Values to set; a key that is there is replaced in its place, others are added at the end.

    Raises:
        ValueError: The top is no block mapping.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    places: dict[str, tuple[int, int]] = {}
    if node is not None:
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            raise ValueError("the top is no block of keys")
        for key, value in node.value:
            start, stop = key.start_mark.index, value.end_mark.index
            places[str(key.value)] = (start, start + len(_without_comments(text[start:stop])))
    fresh = ""
    edits: list[tuple[int, int, str]] = []
    for key, value in changes.items():
        written = dump_yaml({key: value})
        if key in places:
            edits.append((*places[key], written.rstrip("\n")))
        else:
            fresh += written
    for first, last, words in sorted(edits, reverse=True):
        text = text[:first] + words + text[last:]
    if fresh and text and not text.endswith("\n"):
        text += "\n"
    return text + fresh


def dump_yaml(table: Mapping[str, object]) -> str:
    """Write a mapping in block style, in its own order."""
    written: str = yaml.safe_dump(dict(table), sort_keys=False, allow_unicode=True, width=120)
    return written


def _without_comments(block: str) -> str:
    """Take blank lines and comments off the end: PyYAML lets a block reach to the next key."""
    lines = block.splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "".join(lines).rstrip("\n")


def edit_toml(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set before the first table.

    Args:
        text: TOML; empty is fine.
        changes: Values to set; a key that is there is replaced in its place, others are added after the last one.

    Raises:
        ValueError: A key to be replaced is written as a table or with dots, not as ``key = value``.
    """
    lines = text.splitlines()
    statements, end = _statements(lines)
    fresh = [f"{_key(key)} = {dump_toml(value)}" for key, value in changes.items() if key not in statements]
    for key, (first, last) in sorted(statements.items(), key=lambda item: -item[1][0]):
        if key in changes:
            comment = _comment(lines[first]) if last == first + 1 else ""
            lines[first:last] = [f"{_key(key)} = {dump_toml(changes[key])}{comment}"]
            end += 1 - (last - first)
    space = [""] if fresh and end < len(lines) and lines[end].strip() else []
    lines[end:end] = [*fresh, *space]
    return "\n".join(lines) + "\n"


def dump_toml(value: Any) -> str:
    """Write a value; lists of tables take a line per table.

    Raises:
        ValueError: TOML has no such value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, list):
        if any(isinstance(part, dict) for part in value):
            return "[\n" + "".join(f"  {dump_toml(part)},\n" for part in value) + "]"
        return f"[{', '.join(map(dump_toml, value))}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(str(key))} = {dump_toml(part)}" for key, part in value.items() if part is not None)
        return f"{{ {inside} }}" if inside else "{}"
    raise ValueError(f"TOML has no {type(value).__name__}")


def _key(key: str) -> str:
    plain = key and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in key)
    return key if plain else json.dumps(key, ensure_ascii=False)


def _statements(lines: list[str]) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the lines of each ``key = value`` before the first table, and the line after the last of them."""
    found: dict[str, tuple[int, int]] = {}
    place = end = 0
    while place < len(lines):
        head = lines[place].strip()
        if head.startswith("["):
            break
        if not head or head.startswith("#"):
            place += 1
            continue
        stop = place + 1
        while (parsed := _parsed(lines[place:stop])) is None and stop < len(lines):
            stop += 1
        if parsed is None:
            raise ValueError(f"line {place + 1} cannot be told")
        found[next(iter(parsed))] = (place, stop)
        place = end = stop
    return found, end


def _parsed(lines: list[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return None


def _comment(line: str) -> str:
    """Return the comment at the end of a line with the blanks before it."""
    whole = _parsed([line])
    for place, letter in enumerate(line):
        if letter == "#" and _parsed([line[:place]]) == whole:
            value = line[:place].rstrip()
            return line[len(value) :]
    return ""
