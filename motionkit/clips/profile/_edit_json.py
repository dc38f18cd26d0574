"""Set top-level keys of a JSON text and leave every other character as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from motionkit.documents import plain_json

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")


def edit_json(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set at the top level; comments, order and spacing of the rest stay.

    Args:
        text: A JSON object, with or without comments and trailing commas.
        changes: Values to set; a key that is there is replaced in its place, others are added at the end.

    Raises:
        ValueError: The text is no JSON object.
    """
    plain = plain_json(text)
    places, start, stop = _places(plain)
    indent = _indent(text, places)
    edits: list[tuple[int, int, str]] = []
    fresh: list[str] = []
    for key, value in changes.items():
        if key in places:
            edits.append((*places[key], dump(value, indent)))
        else:
            fresh.append(f"{indent}{json.dumps(key, ensure_ascii=False)}: {dump(value, indent)}")
    if fresh:
        last = max((end for _, end in places.values()), default=start)
        edits.append((last, stop, _tail(text[last:stop], bool(places)) + ",\n".join(fresh) + "\n"))
    for first, last, words in sorted(edits, reverse=True):
        text = text[:first] + words + text[last:]
    return text


def dump(value: object, indent: str = "  ") -> str:
    """Write a value over several lines, short lists on one; `indent` is that of its own line."""
    return _written(value, indent, "  " if not indent.strip(" ") else indent)


def _written(value: object, outer: str, step: str) -> str:
    line = json.dumps(value, ensure_ascii=False)
    flat = not isinstance(value, (dict, list)) or not any(isinstance(part, (dict, list)) for part in _parts(value))
    if not isinstance(value, (dict, list)) or not value or (flat and len(line) <= 80):
        return line
    inner = outer + step
    if isinstance(value, dict):
        rows = [
            f"{json.dumps(str(key), ensure_ascii=False)}: {_written(part, inner, step)}" for key, part in value.items()
        ]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{outer}}}"
    return "[\n" + ",\n".join(inner + _written(part, inner, step) for part in value) + f"\n{outer}]"


def _parts(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def _places(plain: str) -> tuple[dict[str, tuple[int, int]], int, int]:
    """Return where each top-level value stands, and the places after ``{`` and of ``}``."""
    place = _skip(plain, 1 if plain.startswith("\ufeff") else 0)
    if plain[place : place + 1] != "{":
        raise ValueError("no object at the top")
    start = place + 1
    places: dict[str, tuple[int, int]] = {}
    place = _skip(plain, start)
    while plain[place : place + 1] != "}":
        key, place = _DECODER.raw_decode(plain, place)
        place = _skip(plain, place)
        if plain[place : place + 1] != ":":
            raise ValueError("a key without a value")
        first = _skip(plain, place + 1)
        _, last = _DECODER.raw_decode(plain, first)
        places[str(key)] = (first, last)
        place = _skip(plain, last)
        if plain[place : place + 1] == ",":
            place = _skip(plain, place + 1)
    return places, start, place


def _skip(plain: str, place: int) -> int:
    found = _SPACE.match(plain, place)
    return found.end() if found else place


def _indent(text: str, places: Mapping[str, tuple[int, int]]) -> str:
    """Return the indent of the first key; two blanks without one."""
    for first, _ in places.values():
        line = text[text.rfind("\n", 0, first) + 1 : first]
        blank = line[: len(line) - len(line.lstrip())]
        if line.lstrip().startswith('"') and blank:
            return blank
    return "  "


def _tail(between: str, after_value: bool) -> str:
    """Return the text before new keys: that between the last value and the brace, with a comma."""
    bare = re.sub(r"//[^\r\n]*|/\*.*?\*/", "", between, flags=re.DOTALL)
    comma = "," if after_value and "," not in bare else ""
    return f"{comma}{between.rstrip()}\n"
