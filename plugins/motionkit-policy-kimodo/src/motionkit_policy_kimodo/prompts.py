"""Prompts from files: a text file, a CSV, or folders of cases with a meta.json, as Kimodo's benchmark has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit.documents import CsvTable, read_json, read_text
from motionkit.errors import MotionkitError

_LONGEST = 3600.0  # seconds


@dataclass(frozen=True)
class Asked:
    """What a file asks for."""

    texts: tuple[str, ...]  # One, or several that follow each other
    seconds: tuple[float, ...]  # Of each text; empty if they are not given
    origin: str  # Where it stands
    constraints: Path | None = None  # File of its constraints
    heading: float | None = None  # First heading in radians
    truth: Path | None = None  # File of the motion that it was written for

    def extras(self) -> dict[str, Any]:
        """Return what it asks for beside text and seconds, as `motionkit.text.Prompt.extras` has it."""
        files = {"constraints": self.constraints, "truth": self.truth}
        given = {name: str(file) for name, file in files.items() if file is not None}
        return given if self.heading is None else {**given, "heading": self.heading}


def read_prompts(path: Path) -> list[Asked]:
    """Read prompts, in the file's order.

    Args:
        path: A text file with a prompt in each line, seconds after a tab if they are given; a CSV with the column
            ``text``, and ``seconds``, ``heading`` (radians), ``constraints`` and ``motion`` (files; the true motion) or
            none of them; or a folder, in which every meta.json is a case, with constraints.json and the true motion,
            gt_motion.npz, beside it.

    Raises:
        MotionkitError: There is no prompt, or seconds that are no length.
    """
    if path.is_dir():
        found = [_case(file) for file in sorted(path.rglob("meta.json"))]
    else:
        found = list(_table(path) if path.suffix.lower() == ".csv" else _lines(path))
    if not found:
        raise MotionkitError(
            f"{path} holds no prompt.", fix="give a text file, a CSV with the column text, or a folder with meta.json."
        )
    return found


def _lines(path: Path) -> Iterator[Asked]:
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        text, _, time = line.partition("\t")
        if text.strip():
            origin = f"{path}, line {number}"
            yield Asked((text.strip(),), _seconds(time.strip() or None, origin), origin)


def _table(path: Path) -> Iterator[Asked]:
    table = CsvTable(path)
    if "text" not in table.columns:
        raise MotionkitError(f"{path} has no column text.", fix="its first line names the columns: text,seconds")
    for line, row in table.rows("text"):
        origin = f"{path}, line {line}"
        columns = ("seconds", "heading", "constraints", "motion")
        seconds, heading, name, motion = (row.get(column, "").strip() for column in columns)
        yield Asked(
            (row["text"].strip(),),
            _seconds(seconds or None, origin),
            origin,
            path.parent / name if name else None,
            _radians(heading, origin) if heading else None,
            path.parent / motion if motion else None,
        )


def _case(path: Path) -> Asked:
    meta = read_json(path, dict, fix="copy it again.")
    texts, times = (_listed(meta, name) for name in ("text", "duration"))
    if not texts or not all(isinstance(text, str) for text in texts) or len(times) not in (0, len(texts)):
        raise MotionkitError(f"{path} has no text, or another number of durations.", fix="copy it again.")
    constraints, truth = (path.with_name(name) for name in ("constraints.json", "gt_motion.npz"))
    seconds = tuple(second for time in times for second in _seconds(time, str(path)))
    return Asked(
        tuple(texts),
        seconds,
        str(path),
        constraints if constraints.is_file() else None,
        truth=truth if truth.is_file() else None,
    )


def _listed(meta: dict[str, Any], name: str) -> list[Any]:
    value = meta.get(name, meta.get(f"{name}s", []))
    return value if isinstance(value, list) else [value]


def _radians(value: str, origin: str) -> float:
    radians = _number(value)
    if not abs(radians) < 7:
        raise MotionkitError(f"{origin}: {value!r:.80} is no heading.", fix="give radians; 0 is +Z.")
    return radians


def _seconds(value: Any, origin: str) -> tuple[float, ...]:
    if value is None:
        return ()
    seconds = _number(value)
    if not 0 < seconds <= _LONGEST:
        raise MotionkitError(f"{origin}: {value!r:.80} are no seconds.", fix="give a number above 0.")
    return (seconds,)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
