"""Curves of metrics.jsonl for people: one metric over the steps, averaged, smoothed, or as a line of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Point = tuple[float, float]
"""(step, value)."""

_BLOCKS = "▁▂▃▄▅▆▇█"


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
    found = []
    for place, (step, _) in enumerate(points):
        first, last = max(0, place - half), min(len(points), place + half + 1)
        found.append((step, (sums[last] - sums[first]) / (last - first)))
    return found


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
