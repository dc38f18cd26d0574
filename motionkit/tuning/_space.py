"""Search spaces: files of the user's own, how a value is drawn, and the base's own values in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit.config import Choice, Range, Space
from motionkit.documents import read_json, read_toml, read_yaml
from motionkit.errors import MotionkitError
from motionkit.tuning._base import value_at

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_READERS = {".json": read_json, ".jsonc": read_json, ".yaml": read_yaml, ".yml": read_yaml}
_EXAMPLE = '"optim.learning_rate" = [1e-5, 1e-3, "log"]'


def read_space(path: Path) -> dict[str, Range | Choice]:
    """Read a space from a JSON, TOML or YAML file, dotted keys or tables.

    A value is ``[low, high]``, perhaps with ``"log"``, ``"int"`` or both behind it, or a list of choices. ``[128, 512,
    "int", 64]`` goes in steps of 64. Two numbers that are choices are written ``{choices = [64, 128]}``.
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        raise MotionkitError(f"--space {path} does not exist.", fix="check the path.")
    if suffix == ".toml":
        table = read_toml(path)
    elif suffix in _READERS:
        table = _READERS[suffix](path, dict)
    else:
        raise MotionkitError(f"--space {path} is neither TOML, JSON nor YAML.", fix="name it .toml, .json or .yaml")
    found = dict(_entries(table, "", path))
    if not found:
        raise MotionkitError(f"--space {path} is empty.", fix=_EXAMPLE)
    return found


def _entries(table: Mapping[str, Any], prefix: str, path: Path) -> Iterator[tuple[str, Range | Choice]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and set(value) != {"choices"}:
            yield from _entries(value, f"{key}.", path)
        else:
            yield key, dimension(value, key, str(path))


def dimension(value: object, key: str, origin: str) -> Range | Choice:
    """Return one dimension as a file writes it."""
    try:
        if isinstance(value, dict):
            return _choice(value.get("choices"))
        if not isinstance(value, list):
            raise ValueError("is no list")
        ends, marks = value[:2], value[2:]
        step = marks.pop() if marks and _is_number(marks[-1]) and "int" in marks else 1
        if len(value) >= 2 and all(map(_is_number, ends)) and all(mark in ("log", "int") for mark in marks):
            return Range(float(ends[0]), float(ends[1]), "log" in marks, "int" in marks, int(step))
        return _choice(value)
    except ValueError as error:
        raise MotionkitError(f"{key} in {origin}: {error}.", why=f"it is {value!r}.", fix=_EXAMPLE) from error


def _choice(values: object) -> Choice:
    if not isinstance(values, list) or not values:
        raise ValueError("a list of choices is missing")
    if any(item is not None and not isinstance(item, (str, int, float, bool)) for item in values):
        raise ValueError("a choice is a word, a number, true, false or null")
    if len(values) < 2:
        raise ValueError("one choice is no choice")
    return Choice(tuple(values))


def written(space: Space) -> dict[str, Any]:
    """Return a space as a file holds it; `dimension` reads each value back."""
    found: dict[str, Any] = {}
    for key, one in space.items():
        if isinstance(one, Choice):
            found[key] = {"choices": list(one.values)}
        else:
            ends = [int(one.low), int(one.high)] if one.whole else [one.low, one.high]
            marks = [*(["log"] if one.log else []), *(["int"] if one.whole else [])]
            found[key] = [*ends, *marks, *([one.step] if one.step != 1 else [])]
    return found


def with_base(space: Space, base: Mapping[str, Any]) -> tuple[dict[str, Range | Choice], list[str]]:
    """Return the space widened so that it holds the base's own values, and a sentence for each change."""
    wide: dict[str, Range | Choice] = {}
    notes = []
    for key, one in space.items():
        value = value_at(base, key)
        new = one
        if isinstance(one, Choice):
            if value not in one.values:
                new = Choice((*one.values, value))
        elif not _is_number(value):
            raise MotionkitError(f"{key} is {value!r} in the base settings, which is no number.", fix=f"give it one, "
                                 f"or leave {key} out of the space.")  # fmt: skip
        elif one.log and value <= 0:
            raise MotionkitError(
                f"{key} is {value:g} in the base settings, and its logarithm is searched.",
                fix='leave "log" out, or set it above 0 in the base.',
            )
        else:
            low, high, step = min(one.low, float(value)), max(one.high, float(value)), one.step
            if step != 1:  # the values that are tried must hold both ends of the range and the base's
                step = math.gcd(step, int(abs(value - one.low)))
            new = replace(one, low=low, high=high, step=max(step, 1))
        if new != one:
            notes.append(f"{key}: the base has {_shown(value)}, so the space was widened to hold it")
        wide[key] = new
    return wide, notes


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    found: dict[str, BaseDistribution] = {}
    for key, one in space.items():
        if isinstance(one, Choice):
            found[key] = CategoricalDistribution(one.values)
        elif one.whole:
            found[key] = IntDistribution(int(one.low), int(one.high), log=one.log, step=one.step)
        else:
            found[key] = FloatDistribution(one.low, one.high, log=one.log)
    return found


def values_of(space: Space, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base's values of what is searched, in the types of the space."""
    found = {}
    for key, one in space.items():
        value = value_at(base, key)
        found[key] = value if isinstance(one, Choice) else int(value) if one.whole else float(value)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)
