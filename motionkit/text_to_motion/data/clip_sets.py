"""Counts and indexes the sets of K clips that fit a length, without listing them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.text_to_motion.data.joined import MIN_SEGMENT, Source

Counts = NDArray[Any]  # ``[K + 1, high + 1]`` Python integers of any size


@dataclass(frozen=True)
class _Kind:
    """Groups with equally many clips of one length; each group of mixed lengths is a separate kind."""

    groups: tuple[dict[int, tuple[int, ...]], ...]  # for each group, the indices of its clips by length

    def moves(self, most: int) -> list[tuple[int, int, int]]:
        """Return the ways to take clips, each as (number of groups, length of each clip, number of combinations)."""
        (*_, first) = self.groups
        if len(self.groups) == 1:
            return [(1, length, len(places)) for length, places in first.items()]
        ((length, places),) = first.items()
        groups = len(self.groups)
        return [
            (count, length, comb(groups, count) * len(places) ** count) for count in range(1, min(groups, most) + 1)
        ]

    def pick(self, count: int, length: int, number: int) -> list[int]:
        """Return the clip indices of combination `number` of a move."""
        chosen, top = [], len(self.groups)
        number, clips = divmod(number, len(self.groups[0][length]) ** count)
        for remaining in range(count, 0, -1):
            # Unrank a combination in colexicographic order: the largest group comes first.
            top = bisect_right(range(top), number, key=lambda group, remaining=remaining: comb(group, remaining)) - 1  # type: ignore[misc]
            number -= comb(top, remaining)
            places = self.groups[top][length]
            clips, clip = divmod(clips, len(places))
            chosen.append(places[clip])
        return chosen


class FittingSets:
    """All sets of K clips of K groups whose lengths fit, numbered from 0 without listing them.

    A set fits if its total can be ``low .. high`` frames. If clips may be cut, the total of their shortest cuts
    (`least_kept`) must be at most `high` and that of the whole clips at least `low`. A cut is not longer than its clip,
    so the sets that fit are those that meet the first condition minus those that fail the second: two one-dimensional
    counts.
    """

    def __init__(self, sources: Sequence[Source], k_segments: int, *, low: int, high: int, crop: bool) -> None:
        self._k, self._high, self._crop = k_segments, high, crop
        self._kinds = _kinds(sources)
        self._moves = [kind.moves(k_segments) for kind in self._kinds]
        # Shifted by this many frames, a total below `low` becomes one within `high`.
        self._below = high - low + 1
        self._least = self._suffixes(cut=crop)
        self._full = self._suffixes(cut=False) if crop else self._least
        self.count = self._ways(0, k_segments, 0, 0)

    def nth(self, number: int) -> tuple[int, ...]:
        """Return the clip indices of set `number`, for ``0 <= number < count``."""
        chosen: list[int] = []
        kind = least = full = 0
        while (remaining := self._k - len(chosen)) > 0:
            # Find the first kind of the set: sets whose first kind is later have smaller numbers.
            state = remaining, least, full
            later = range(kind, len(self._kinds) + 1)
            kind += bisect_left(later, True, key=lambda at, state=state: self._ways(at, *state) <= number) - 1  # type: ignore[misc]
            number -= self._ways(kind + 1, *state)
            for count, length, ways in self._moves[kind]:
                after = least + count * _size(length, cut=self._crop), full + count * length
                ways_after = self._ways(kind + 1, remaining - count, *after) if count <= remaining else 0
                if number < ways * ways_after:
                    break
                number -= ways * ways_after
            combination, number = divmod(number, ways_after)
            chosen += self._kinds[kind].pick(count, length, combination)
            least, full = after
            kind += 1
        return tuple(chosen)

    def _ways(self, kind: int, remaining: int, least: int, full: int) -> int:
        """Return the number of ways to take `remaining` clips of the kinds from `kind` on."""
        if least > self._high:
            return 0
        ways, short = int(self._least[kind][remaining, least]), full + self._below
        return ways - (int(self._full[kind][remaining, short]) if short <= self._high else 0)

    def _suffixes(self, *, cut: bool) -> list[Counts]:
        """Return, for the kinds from each one on, the number of ways to take n clips with each total up to `high`."""
        counts: Counts = np.zeros((self._k + 1, self._high + 1), dtype=object)
        counts[0] = 1
        result = [counts]
        for moves in reversed(self._moves):
            before, counts = counts, counts.copy()
            for count, length, ways in moves:
                size = count * _size(length, cut=cut)
                if size <= self._high:
                    counts[count:, : self._high + 1 - size] += ways * before[: self._k + 1 - count, size:]
            result.append(counts)
        return result[::-1]


def least_kept(source: Source, *, crop: bool) -> int:
    """Return the fewest frames of a clip in a sample: all, or `MIN_SEGMENT` of a longer one that may be cut."""
    return _size(source.frames, cut=crop)


def _size(length: int, *, cut: bool) -> int:
    return min(length, MIN_SEGMENT) if cut else length


def _kinds(sources: Sequence[Source]) -> list[_Kind]:
    groups: dict[str, dict[int, list[int]]] = {}
    for index, source in enumerate(sources):
        groups.setdefault(source.group, {}).setdefault(source.frames, []).append(index)
    alike: dict[tuple[object, ...], list[dict[int, tuple[int, ...]]]] = {}
    for name, lengths in groups.items():
        group = {length: tuple(places) for length, places in lengths.items()}
        ((length, places), *more) = group.items()
        alike.setdefault((name,) if more else (length, len(places)), []).append(group)
    return [_Kind(tuple(same)) for same in alike.values()]


def extremes(sources: Sequence[Source], k_segments: int, *, crop: bool) -> tuple[int, int] | None:
    """Return the smallest and the largest total of K clips of K groups, or None if there are fewer groups."""
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for source in sources:
        shortest = least_kept(source, crop=crop)
        least[source.group] = min(least.get(source.group, shortest), shortest)
        most[source.group] = max(most.get(source.group, 0), source.frames)
    if len(least) < k_segments:
        return None
    return sum(sorted(least.values())[:k_segments]), sum(sorted(most.values())[-k_segments:])


def next_total(sources: Sequence[Source], k_segments: int, *, above: int, crop: bool) -> int | None:
    """Return the smallest total above a given one that K clips of K groups can have, or None.

    If no clips fit a target length, this is the next target length that some fit.
    """
    sizes: dict[str, set[int]] = {}
    for source in sources:
        sizes.setdefault(source.group, set()).add(least_kept(source, crop=crop))
    # Bit n of reached[k]: k clips can have a total of n frames.
    reached = [1] + [0] * k_segments
    for group in sizes.values():
        for k in range(k_segments, 0, -1):
            for size in group:
                reached[k] |= reached[k - 1] << size
    further = reached[k_segments] >> (above + 1)
    return above + (further & -further).bit_length() if further else None
