"""Prompts from files: a text file, a CSV, or folders of cases with a meta.json, as Kimodo's benchmark has them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    # What it asks for beside them, as in `motionkit.text.Prompt`: files of its ``constraints`` and of the motion that
    # it was written for (``truth``), and its first ``heading`` in radians.
    extras: Mapping[str, Any] = field(default_factory=dict)


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
        cells = {name: cell.strip() for name, cell in row.items()}
        files = {"constraints": cells.get("constraints"), "truth": cells.get("motion")}
        extras: dict[str, Any] = {name: str(path.parent / file) for name, file in files.items() if file}
        if heading := cells.get("heading"):
            extras["heading"] = radians(heading, origin)
        yield Asked((cells["text"],), _seconds(cells.get("seconds") or None, origin), origin, extras)


def _case(path: Path) -> Asked:
    meta = read_json(path, dict, fix="copy it again.")
    texts, times = (_listed(meta, name) for name in ("text", "duration"))
    if not texts or not all(isinstance(text, str) for text in texts) or len(times) not in (0, len(texts)):
        raise MotionkitError(f"{path} has no text, or another number of durations.", fix="copy it again.")
    seconds = tuple(second for time in times for second in _seconds(time, str(path)))
    files = {"constraints": path.with_name("constraints.json"), "truth": path.with_name("gt_motion.npz")}
    return Asked(tuple(texts), seconds, str(path), {name: str(file) for name, file in files.items() if file.is_file()})


def _listed(meta: dict[str, Any], name: str) -> list[Any]:
    value = meta.get(name, meta.get(f"{name}s", []))
    return value if isinstance(value, list) else [value]


def radians(value: object, origin: str) -> float:
    """Return a first heading as a number; refuse what is none."""
    heading = _number(value)
    if not abs(heading) < 7:
        raise MotionkitError(f"{origin}: {value!r:.80} is no heading.", fix="give radians; 0 is +Z.")
    return heading


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
