"""Draws samples: clips that fit the length, their windows, and different captions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from motionkit.datasets.composite._captions import draw_captions
from motionkit.datasets.composite._plan import Plan
from motionkit.datasets.composite._sets import FittingSets, least_kept
from motionkit.datasets.composite._sources import Source

Windows = tuple[tuple[int, int], ...]

ATTEMPTS = 200
"""Most draws per requested sample, as in the original code."""


@dataclass(frozen=True)
class Drawn:
    """One drawn sample, before its arrays are computed.

    Attributes:
        parts: Its clips, in order.
        windows: The half-open frame range that is taken of each.
        texts: A caption of each.
    """

    parts: tuple[Source, ...]
    windows: Windows
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Drawing:
    """All samples that were drawn.

    Attributes:
        samples: At most as many as requested.
        attempts: Number of sets examined.
        exhausted: Whether these were all sets that fit.
        repeats: Samples in which two segments have one caption, because the clips have no others.
    """

    samples: tuple[Drawn, ...]
    attempts: int
    exhausted: bool
    repeats: int


def draw_samples(sources: Sequence[Source], plan: Plan) -> Drawing:
    """Draw samples uniformly without replacement from all sets of clips that fit.

    Of sets of the same motions (which differ in the captioned part) only the first is taken. Sets whose captions are
    not all different are used last.
    """
    sets = FittingSets(sources, plan.k_segments, low=plan.low, high=plan.target_length, crop=plan.cuts)
    rng = random.Random(f"compose {plan.seed} {plan.split} {plan.k_segments}")
    found: list[Drawn] = []
    alike: list[Drawn] = []
    seen: set[tuple[str, ...]] = set()
    attempts = 0
    for number in _any_order(sets.count, rng):
        if len(found) == plan.max_samples or attempts == ATTEMPTS * plan.max_samples:
            break
        attempts += 1
        places = list(sets.nth(number))
        rng.shuffle(places)
        parts = tuple(sources[place] for place in places)
        key = tuple(sorted(part.file for part in parts))
        if key in seen:
            continue
        texts, different = draw_captions(parts, rng)
        if different or len(alike) < plan.max_samples:
            seen.add(key)
            windows = _cut_windows(parts, plan.low, plan.target_length, rng)
            (found if different else alike).append(Drawn(parts, windows, texts))
    repeats = min(len(alike), plan.max_samples - len(found))
    return Drawing((*found, *alike[:repeats]), attempts, attempts == sets.count, repeats)


def _any_order(count: int, rng: random.Random) -> Iterator[int]:
    """Yield 0 .. count - 1 in random order (a lazy Fisher-Yates shuffle that stores swapped places only)."""
    moved: dict[int, int] = {}
    at = 0
    while at < count:
        other = rng.randrange(at, count)
        yield moved.get(other, other)
        moved[other] = moved.pop(at, at)
        at += 1


def _cut_windows(parts: Sequence[Source], low: int, high: int, rng: random.Random) -> Windows:
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
