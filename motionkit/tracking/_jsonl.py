"""metrics.jsonl, one line of finite JSON per logged step: how it is written, read back and drawn as curves.

`JsonlWriter` appends lines; `read_metrics` and `last_metrics` read them. `series` takes the points of one metric out of
the lines, `binned` and `smoothed` average them, and `sparkline` draws them as blocks.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_jsonl

Point = tuple[float, float]
"""(step, value)."""

_BLOCKS = "▁▂▃▄▅▆▇█"

_END = 1 << 18
"""Bytes from the end of a metrics file in which its last line is looked for."""


def finite(value: object) -> object:
    """Return `value` with NaN and infinities replaced by None, recursively, because JSON cannot represent them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class JsonlWriter:
    """Appends lines to a file; an incomplete line is removed again.

    Args:
        path: The file; made if it is missing.

    Example:
        >>> writer = JsonlWriter(Path("metrics.jsonl"))
        >>> writer.write({"step": 1, "reward/mean": 0.5, "kl/nats": float("nan")})
        >>> writer.close()
        >>> list(read_metrics(Path("metrics.jsonl")))
        [{'step': 1, 'reward/mean': 0.5, 'kl/nats': None}]
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, line: Mapping[str, object]) -> None:
        """Append one line.

        Raises:
            OSError: The disk is full; the file then ends with the line before.
        """
        data = json.dumps(finite(line), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        start = os.fstat(self._file.fileno()).st_size
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            os.ftruncate(self._file.fileno(), start)
            raise

    def close(self) -> None:
        """Flush to the disk and close; errors do not affect lines that were written before."""
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            finally:
                self._file.close()


class _Line(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    step: int = Field(ge=0)
    seconds: float | None = Field(None, ge=0)


def must_be_finite(name: str) -> bool:
    """Return whether a metric without a finite value means that something is broken: a loss, or the norm of an update.

    Others may have none, such as the mean of a reward that applies to no sample of a step.

    Example:
        >>> [must_be_finite(name) for name in ("loss/total", "supervised/loss", "val/loss/nce", "reward/rule/mean")]
        [True, True, True, False]
    """
    return any("loss" in part for part in name.split("/")) or name == "grad/norm"


def not_finite(path: Path) -> dict[str, dict[str, int]]:
    """Return the metrics of a file that `must_be_finite` and were not: by name ``first``, a step, and ``lines``."""
    found: dict[str, dict[str, int]] = {}
    for line in read_metrics(path):
        for name, value in line.items():
            if value is None and must_be_finite(name):
                entry = found.setdefault(name, {"first": int(line["step"]), "lines": 0})
                entry["lines"] += 1
    return found


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a metrics file: ``step`` and numbers, or None where a number was not finite.

    Lines that no run can have written are skipped, also an incomplete last line of a killed process.
    """
    yield from _valid(read_jsonl(path))


def last_metrics(path: Path) -> dict[str, Any]:
    """Return the last complete line of a metrics file, reading only the end of the file; empty if there is none."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _END))
        lines = file.read().splitlines(keepends=True)
    metrics: dict[str, Any] = {}
    for line in _valid(parsed for text in reversed(lines) if (parsed := _object(text))):
        metrics = line
        break
    return metrics


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text) if text.endswith(b"\n") else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _valid(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            _Line.model_validate(line)
        except ValidationError:
            continue
        yield line


def series(lines: Iterable[Mapping[str, Any]], name: str) -> list[Point]:
    """Return the finite values of one metric in order of the steps.

    Example:
        >>> series([{"step": 1, "reward/mean": 0.5}, {"step": 2, "reward/mean": None}], "reward/mean")
        [(1.0, 0.5)]
    """
    return [(float(line["step"]), float(line[name])) for line in lines if line.get(name) is not None]


def binned(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most `most` points, each the mean of neighbours; the last step stays the last.

    Example:
        >>> binned([(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)], 2)
        [(2, 0.5), (4, 2.5)]
    """
    count = min(most, len(points))
    edges = [round(place * len(points) / count) for place in range(count + 1)] if count else []
    parts = [points[start:stop] for start, stop in pairwise(edges)]
    return [(part[-1][0], sum(value for _, value in part) / len(part)) for part in parts]


def smoothed(points: Sequence[Point], window: int) -> list[Point]:
    """Return the mean of each point and its neighbours, `window` points in all, fewer at the ends.

    Example:
        >>> smoothed([(1, 0.0), (2, 3.0), (3, 0.0)], 3)
        [(1, 1.5), (2, 1.0), (3, 1.5)]
    """
    half = window // 2
    sums = [0.0]
    for _, value in points:
        sums.append(sums[-1] + value)
    means = []
    for place, (step, _) in enumerate(points):
        first, last = max(0, place - half), min(len(points), place + half + 1)
        means.append((step, (sums[last] - sums[first]) / (last - first)))
    return means


def sparkline(values: Sequence[float]) -> str:
    """Return values as blocks between their lowest and their highest; empty for none.

    Example:
        >>> sparkline([0.0, 0.5, 1.0])
        '▁▅█'
    """
    if not values:
        return ""
    low, high = min(values), max(values)
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round((value - low) / (high - low) * top) if high > low else 0] for value in values)
