"""Bins for the page's histograms that show the values and not the grid they lie on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from motionkit.clips.profile._measure import ClipRow

_MOST = 40
_ROUND = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)


@dataclass(frozen=True)
class Binned:
    """Values in equal bins.

    Attributes:
        start: Lower end of the first bin.
        width: Width of each.
        counts: Values per bin.
    """

    start: float
    width: float
    counts: list[int]


def bin_lengths(rows: Sequence[ClipRow]) -> Binned:
    """Put clips into bins by their length in seconds.

    Lengths are whole frames, and often multiples of several (the starter's of four). A bin that is no multiple of that
    step holds now more and now fewer of the possible lengths, and the histogram shows a comb that is not in the data.
    So bins are as wide as a whole number of steps and begin half a step below the shortest clip, each possible length
    inside of its bin. With several frame rates the coarsest step is taken.

    Args:
        rows: Clips, at least one.
    """
    step = max(_step([row.frames for row in rows if row.fps == fps]) / fps for fps in {row.fps for row in rows})
    seconds = [row.seconds for row in rows]
    start, span = min(seconds) - step / 2, max(seconds) - min(seconds) + step
    steps = _round_up(span / step / _bins(len(rows)))
    width = steps * step
    counts = [0] * max(1, math.ceil(span / width - 1e-9))
    for value in seconds:
        counts[min(int((value - start) / width), len(counts) - 1)] += 1
    return Binned(start, width, counts)


def bin_values(values: Sequence[float], most: float) -> Binned:
    """Put values of no grid, from 0 to `most`, into bins of a round width; what lies beyond is left out."""
    raw = max(most, 1e-9) / _bins(len(values))
    power = 10.0 ** math.floor(math.log10(raw))
    width = next(part * power for part in (1, 2, 5, 10) if part * power >= raw * (1 - 1e-9))
    counts = [0] * max(1, math.ceil(most / width - 1e-9))
    for value in values:
        if value <= most:
            counts[min(int(value / width), len(counts) - 1)] += 1
    return Binned(0.0, width, counts)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(math.ceil(part * len(ordered)), len(ordered)) - 1]


def _bins(number: int) -> int:
    """Return how many bins so many values can fill: the square root twice, 6 to 40."""
    return min(max(round(2 * math.sqrt(number)), 6), _MOST)


def _step(frames: Sequence[int]) -> int:
    """Return the frames by which lengths differ at least, if there are at least 8 different lengths."""
    least = min(frames)
    step = math.gcd(*(length - least for length in frames))
    return step if len(set(frames)) >= 8 else 1


def _round_up(steps: float) -> int:
    """Return a number of steps for a bin, a round one where there is one."""
    whole = max(1, math.ceil(steps - 1e-9))
    return next((number for number in _ROUND if number >= whole), whole)
