"""Chooses the frames that are used of each clip of a set."""

from __future__ import annotations

import random
from collections.abc import Sequence

from motionkit.datasets.composite._sets import least_kept
from motionkit.datasets.composite._sources import Source

Windows = tuple[tuple[int, int], ...]


def cut_windows(parts: Sequence[Source], low: int, high: int, rng: random.Random) -> Windows:
    """Return the half-open frame range of each clip of a set that fits `low` .. `high`.

    Clips are whole unless their total is too long. Then a total is drawn, each clip keeps its minimum, and the other
    frames are divided among the clips about uniformly; the places of the windows are drawn as well.
    """
    lengths = [part.frames for part in parts]
    kept = list(lengths)
    if sum(lengths) > high:
        kept = [least_kept(part, crop=True) for part in parts]
        spare = rng.randint(max(low, sum(kept)), high) - sum(kept)
        dealt = [1] * len(parts)
        for _ in range(spare):
            # A Polya urn divides the frames; exactly uniform but for the clips' own lengths.
            open_ones = [k for k, length in enumerate(lengths) if kept[k] < length]
            (k,) = rng.choices(open_ones, [dealt[k] for k in open_ones])
            kept[k] += 1
            dealt[k] += 1
    starts = [rng.randint(0, length - frames) for length, frames in zip(lengths, kept, strict=True)]
    return tuple((start, start + frames) for start, frames in zip(starts, kept, strict=True))
