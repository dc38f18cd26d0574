"""Setting top-level keys and tables of a TOML text while leaving the rest of it as it is."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

_LINES = 500
"""Lines of one statement; its end is found by parsing what begins it, so that time grows with the square."""


def edit_toml(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set: values before the first table, tables as ``[name]`` at the end.

    Args:
        text: TOML; empty is fine.
        changes: Values to set; a key that is there is replaced in its place, and in a table ``[name]`` that is there
            each key is; others are added after the last one.

    Raises:
        ValueError: A key to be replaced is written as a list of tables or with dots.
    """
    tables = {key: value for key, value in changes.items() if isinstance(value, Mapping)}
    layout = _Layout.of(text.splitlines())
    inline = {key for key in tables if key in layout.top.places}
    plain = {key: value for key, value in changes.items() if key in inline or key not in tables}
    lines = layout.lines
    # From the end to the front, so that places found before still hold.
    fresh = [key for key in tables if key not in inline and key not in layout.sections]
    for key, section in sorted(layout.sections.items(), key=lambda item: -item[1].end):
        if key in tables:
            _set(lines, section, tables[key])
    _set(lines, layout.top, plain)
    for key in fresh:
        lines += [*([""] if lines and lines[-1].strip() else []), f"[{_key(key)}]"]
        lines += [f"{_key(str(name))} = {dump_toml(part)}" for name, part in tables[key].items() if part is not None]
    return "\n".join(lines) + "\n"


def dump_toml_file(table: Mapping[str, object]) -> str:
    """Write a table as a file of its own; keys without a value are left out."""
    return edit_toml("", {key: value for key, value in table.items() if value is not None})


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


@dataclass
class _Section:
    """Where the statements of one table stand: the lines of each, and the line after the last of them."""

    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    end: int = 0


@dataclass
class _Layout:
    """A text as lines, with the statements before the first table and those of each plain table."""

    lines: list[str]
    top: _Section
    sections: dict[str, _Section]

    @classmethod
    def of(cls, lines: list[str]) -> _Layout:
        """Find the statements.

        Raises:
            ValueError: A statement has no end, or more than `_LINES` lines.
        """
        here = _Section()
        found = cls(lines, here, {})
        place = 0
        while place < len(lines):
            head = lines[place].strip()
            if not head or head.startswith("#"):
                place += 1
                continue
            stop = place + 1
            while (parsed := _parsed(lines[place:stop])) is None and stop < min(len(lines), place + _LINES):
                stop += 1
            if parsed is None:
                raise ValueError(f"line {place + 1} cannot be told")
            if head.startswith("["):
                here = _Section(end=stop)
                name, value = next(iter(parsed.items()))
                if value == {}:  # neither a list of tables nor a table within another
                    found.sections[name] = here
            else:
                here.places[next(iter(parsed))] = (place, stop)
                here.end = stop
            place = stop
        return found


def _set(lines: list[str], section: _Section, changes: Mapping[str, object]) -> None:
    """Replace the section's statements of keys that it has, and add the others after its last one."""
    known = {key: value for key, value in changes.items() if value is not None}
    fresh = [f"{_key(key)} = {dump_toml(value)}" for key, value in known.items() if key not in section.places]
    space = [""] if fresh and section.end < len(lines) and lines[section.end].strip() else []
    lines[section.end : section.end] = [*fresh, *space]
    for key, (first, last) in sorted(section.places.items(), key=lambda item: -item[1][0]):
        if key in known and _parsed(lines[first:last]) != {key: known[key]}:  # an equal one stays as it is written
            comment = _comment(lines[first]) if last == first + 1 else ""
            lines[first:last] = [f"{_key(key)} = {dump_toml(known[key])}{comment}"]


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
