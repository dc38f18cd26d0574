"""Drawing K clips whose lengths fit, each fitting K-tuple as likely as any other."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from motionkit.datasets.composite._sources import Source
from motionkit.datasets.joining import MIN_SEGMENT, fit_lengths

_UNIT = 4
_REDRAWS = 20


class Draw:
    """Draws clips without trial and error over lengths.

    The number of ways to go on acceptably from every partial sum is counted first (dynamic programming over the
    histogram of lengths, in whole numbers), and each clip is drawn in proportion to it. Trial and error would reject
    nearly every draw where the total leaves little room, such as four whole clips in 196 frames.

    Args:
        sources: What there is.
        k_segments: Clips per draw.
        low: Smallest total in frames.
        high: Largest total in frames.
        crop: Whether clips may be cut, so that only `low` binds.
        seed: Words that the draws depend on.
    """

    def __init__(
        self, sources: Sequence[Source], k_segments: int, *, low: int, high: int, crop: bool, seed: str
    ) -> None:
        self.sources = sources
        self.k = k_segments
        self.low, self.high, self.crop = low, high, crop
        self.rng = random.Random(seed)
        self._places: dict[int, list[int]] = {}
        for place, source in enumerate(sources):
            self._places.setdefault(source.frames, []).append(place)
        self._lengths = sorted(self._places)
        self._ways = self._count()
        self._choices: dict[tuple[int, int], list[int]] = {}

    @property
    def possible(self) -> bool:
        """Whether any K lengths fit; they may still all belong to one clip."""
        return self._ways[self.k][0] > 0

    def draw(self) -> tuple[int, ...] | None:
        """Return K places of `sources`, of K groups, or None when this draw came to a dead end."""
        chosen: list[int] = []
        groups: set[str] = set()
        total = 0
        for left in range(self.k, 0, -1):
            for _ in range(_REDRAWS):
                place = self._one(left, total)
                if self.sources[place].group not in groups:
                    break
            else:
                return None
            chosen.append(place)
            groups.add(self.sources[place].group)
            total = self._step(total, self.sources[place].frames)
            if not self._ways[left - 1][total]:
                return None
        return tuple(chosen)

    def windows(self, chosen: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
        """Return the half-open frame range that is taken from each clip, or None when they do not fit.

        Clips are whole unless their total is too long; then the longest are cut to one common length, or a unit more
        where frames are left over, at a place that is drawn.
        """
        lengths = [self.sources[place].frames for place in chosen]
        kept = list(lengths)
        if sum(lengths) > self.high:
            kept = list(fit_lengths(lengths, self.high, unit=_UNIT))
            if any(new < old and new < MIN_SEGMENT for new, old in zip(kept, lengths, strict=True)):
                return None
            for k in self.rng.sample(range(self.k), self.k):
                if kept[k] + _UNIT <= lengths[k] and sum(kept) + _UNIT <= self.high:
                    kept[k] += _UNIT
            while sum(kept) < self.low:
                kept[next(k for k in range(self.k) if kept[k] < lengths[k])] += 1
        starts = [self.rng.randint(0, old - new) for new, old in zip(kept, lengths, strict=True)]
        return tuple((start, start + new) for start, new in zip(starts, kept, strict=True))

    def _one(self, left: int, total: int) -> int:
        """Draw a clip of which `left` are still to come, the lengths so far adding up to `total`."""
        key = (left, total)
        if key not in self._choices:
            ways = self._ways[left - 1]
            steps = ((length, self._step(total, length)) for length in self._lengths)
            self._choices[key] = list(
                accumulate(len(self._places[length]) * (ways[step] if step >= 0 else 0) for length, step in steps)
            )
        running = self._choices[key]
        length = self._lengths[bisect_right(running, self.rng.randrange(running[-1]))]
        places = self._places[length]
        return places[self.rng.randrange(len(places))]

    def _step(self, total: int, length: int) -> int:
        """Return the next partial sum; -1 when it is past the largest total. Cut clips count no further than `low`."""
        total += length
        if self.crop:
            return min(total, self.low)
        return total if total <= self.high else -1

    def _count(self) -> list[list[int]]:
        last = self.low if self.crop else self.high
        ways = [[int(total >= self.low) for total in range(last + 1)]]
        counts = [(length, len(self._places[length])) for length in self._lengths]
        for _ in range(self.k):
            before = ways[-1]
            ways.append(
                [
                    sum(
                        count * before[step]
                        for length, count in counts
                        if (step := self._step(total, length)) >= 0 and before[step]
                    )
                    for total in range(last + 1)
                ]
            )
        return ways


def extremes(sources: Sequence[Source], k_segments: int, *, crop: bool) -> tuple[int, int] | None:
    """Return the smallest and the largest total of K clips of K groups, or None when there are fewer groups.

    Args:
        sources: What there is.
        k_segments: K.
        crop: Whether a clip may be cut to `joining.MIN_SEGMENT` frames.
    """
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for source in sources:
        shortest = min(source.frames, MIN_SEGMENT) if crop else source.frames
        least[source.group] = min(least.get(source.group, shortest), shortest)
        most[source.group] = max(most.get(source.group, 0), source.frames)
    if len(least) < k_segments:
        return None
    return sum(sorted(least.values())[:k_segments]), sum(sorted(most.values())[-k_segments:])
