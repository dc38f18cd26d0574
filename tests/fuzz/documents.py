"""Mutations of JSON documents: other types, other keys, numbers that no field expects, depth."""

from __future__ import annotations

import json
from typing import Any

from .chance import INTEGERS, WORDS, Chance
from .texts import spoil_text

_LITERALS = (
    "1e999", "-1e999", "NaN", "-Infinity", "1e-400", "-0", "9" * 400, "[" * 300, "{\"a\":" * 300,
    "[" * 99 + "]" * 99, "[" * 300 + "]" * 300, '{"a":' * 150 + "1" + "}" * 150, '"\\ud800"', '"\\udfff\\ud800"',
    '"\\u0000"', '"\\u001b[2J"', "tru", "", "'x'", "0x10", "01", "1.", "/* */ 1", "1 // x", '"' + "x" * 200_000 + '"',
    "[" + "0," * 20_000 + "0]", '{"a": 1, "a": 2}',
)  # fmt: skip
"""Values that are written into the text as they are; some are no JSON."""

_PLAIN: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], {"": None}, {"a": 1}, [0.0] * 6, 0.5, -0.5, 1e308, -1e308, 1e-9,
    float("nan"),
    float("inf"), *INTEGERS, *WORDS[:40], "1e400", "0", "1", "true", "[]", "{}",
)  # fmt: skip
_MARK = "\ue000literal\ue000"


def spoil_json(data: bytes, chance: Chance) -> bytes:
    """Change a JSON document, or a text of one JSON document per line."""
    if chance.random() < 0.25:
        return spoil_text(data, chance)
    text = data.decode("utf-8", "replace")
    try:
        return _spoil_one(text, chance).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        pass
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    try:
        lines[place] = _spoil_one(lines[place], chance)
    except (ValueError, RecursionError):
        return spoil_text(data, chance)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def spoil_string(text: str, chance: Chance) -> str:
    """Change a JSON document that is kept as a string somewhere else."""
    return spoil_json(text.encode(), chance).decode("utf-8", "replace")


def _spoil_one(text: str, chance: Chance) -> str:
    value = json.loads(text)
    literals: list[str] = []
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        value = _spoil(value, chance, literals)
    written = json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, 2)))
    for literal in literals:
        written = written.replace(json.dumps(_MARK, ensure_ascii=True), literal, 1).replace(f'"{_MARK}"', literal, 1)
    return written


def _spoil(value: Any, chance: Chance, literals: list[str]) -> Any:
    """Go down to some place and change what is there."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        changed = {**value, key: _spoil(value[key], chance, literals)}
        match chance.randrange(12):
            case 0:
                del changed[key]
            case 1:
                changed[chance.choice(WORDS)] = changed.pop(key)
            case 2:
                changed[chance.choice(WORDS)] = changed[key]
            case 3:
                other = chance.choice(list(value))
                changed[key], changed[other] = value[other], value[key]
            case _:
                pass
        return changed
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        changed = [*value[:place], _spoil(value[place], chance, literals), *value[place + 1 :]]
        match chance.randrange(10):
            case 0:
                del changed[place]
            case 1:
                changed[place:place] = [changed[place]] * chance.choice((1, 2, 300))
            case _:
                pass
        return changed
    return _odd(value, chance, literals)


def _odd(value: Any, chance: Chance, literals: list[str]) -> Any:
    roll = chance.random()
    if roll < 0.25:
        literals.append(chance.choice(_LITERALS))
        return _MARK
    if roll < 0.35:
        return chance.choice(([value], {"a": value}, [value, value], str(value)[:1000]))
    if roll < 0.55 and isinstance(value, (int, float)) and not isinstance(value, bool):
        return chance.choice(
            (-value, value + 1, value * 1000, value / 2 if abs(value) < 1e300 else 0, str(value)[:1000])
        )
    if roll < 0.55 and isinstance(value, str):
        return chance.choice((value * 2, value[:-1], value.upper(), value + chance.choice(WORDS), chance.choice(WORDS)))
    return chance.choice(_PLAIN)
