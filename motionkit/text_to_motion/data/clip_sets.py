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
    """Groups with equally many clips of equal lengths. Groups of mixed lengths form a kind of their own."""

    groups: tuple[dict[int, tuple[int, ...]], ...]  # for each group, the places of its clips by length

    def moves(self, most: int) -> list[tuple[int, int, int]]:
        """Return the moves, each as (number of groups, length of each, number of ways)."""
        (*_, first) = self.groups
        if len(self.groups) == 1:
            return [(1, length, len(places)) for length, places in first.items()]
        ((length, places),) = first.items()
        groups = len(self.groups)
        return [
            (taken, length, comb(groups, taken) * len(places) ** taken) for taken in range(1, min(groups, most) + 1)
        ]

    def pick(self, taken: int, length: int, number: int) -> list[int]:
        """Return the clip indices of combination `number` of a move."""
        chosen, top = [], len(self.groups)
        number, clips = divmod(number, len(self.groups[0][length]) ** taken)
        for left in range(taken, 0, -1):
            # Unrank a combination in colexicographic order: the largest group comes first.
            top = bisect_right(range(top), number, key=lambda group, left=left: comb(group, left)) - 1  # type: ignore[misc]
            number -= comb(top, left)
            places = self.groups[top][length]
            clips, clip = divmod(clips, len(places))
            chosen.append(places[clip])
        return chosen


class FittingSets:
    """All sets of K clips of K groups whose lengths fit, numbered from 0 without listing them.

    A set fits when its total can be brought into ``low .. high`` frames: whole clips by themselves, clips that may be
    cut when the total of what must stay of them (`least_kept`) is at most `high` and the total of what they have is
    at least `low`. What must stay is never more than what there is, so the sets that fit are those that pass the
    first condition without those that fail the second: two one-dimensional counts.
    """

    def __init__(self, sources: Sequence[Source], k_segments: int, *, low: int, high: int, crop: bool) -> None:
        self._k, self._high, self._crop = k_segments, high, crop
        self._kinds = _kinds(sources)
        self._moves = [kind.moves(k_segments) for kind in self._kinds]
        # Shifted by this many frames, a total below `low` becomes one within `high`.
        self._below = high - low + 1
        self._kept = self._suffixes(cut=crop)
        self._whole = self._suffixes(cut=False) if crop else self._kept
        self.count = self._ways(0, k_segments, 0, 0)

    def nth(self, number: int) -> tuple[int, ...]:
        """Return the places of the `number`-th set, for ``0 <= number < count``."""
        chosen: list[int] = []
        kind = kept = whole = 0
        while (left := self._k - len(chosen)) > 0:
            # Find the first kind that this set takes from: sets that start later have smaller numbers.
            state = left, kept, whole
            later = range(kind, len(self._kinds) + 1)
            kind += bisect_left(later, True, key=lambda at, state=state: self._ways(at, *state) <= number) - 1  # type: ignore[misc]
            number -= self._ways(kind + 1, *state)
            for taken, length, ways in self._moves[kind]:
                after = kept + taken * _size(length, cut=self._crop), whole + taken * length
                rest = self._ways(kind + 1, left - taken, *after) if taken <= left else 0
                if number < ways * rest:
                    break
                number -= ways * rest
            way, number = divmod(number, rest)
            chosen += self._kinds[kind].pick(taken, length, way)
            kept, whole = after
            kind += 1
        return tuple(chosen)

    def _ways(self, kind: int, left: int, kept: int, whole: int) -> int:
        """Return how many ways there are to go on with `left` clips of the kinds from `kind` on."""
        if kept > self._high:
            return 0
        short = whole + self._below
        return int(self._kept[kind][left, kept]) - (int(self._whole[kind][left, short]) if short <= self._high else 0)

    def _suffixes(self, *, cut: bool) -> list[Counts]:
        """Return, for the kinds from each one on, in how many ways n clips keep a total within `high`."""
        counts: Counts = np.zeros((self._k + 1, self._high + 1), dtype=object)
        counts[0] = 1
        result = [counts]
        for moves in reversed(self._moves):
            before, counts = counts, counts.copy()
            for taken, length, ways in moves:
                size = taken * _size(length, cut=cut)
                if size <= self._high:
                    counts[taken:, : self._high + 1 - size] += ways * before[: self._k + 1 - taken, size:]
            result.append(counts)
        return result[::-1]


def least_kept(source: Source, *, crop: bool) -> int:
    """Return the fewest frames of a clip that may stay: all, or `MIN_SEGMENT` of a longer one that may be cut."""
    return _size(source.frames, cut=crop)


def _size(length: int, *, cut: bool) -> int:
    return min(length, MIN_SEGMENT) if cut else length


def _kinds(sources: Sequence[Source]) -> list[_Kind]:
    groups: dict[str, dict[int, list[int]]] = {}
    for place, source in enumerate(sources):
        groups.setdefault(source.group, {}).setdefault(source.frames, []).append(place)
    alike: dict[tuple[object, ...], list[dict[int, tuple[int, ...]]]] = {}
    for name, lengths in groups.items():
        group = {length: tuple(places) for length, places in lengths.items()}
        ((length, places), *others) = group.items()
        alike.setdefault((name,) if others else (length, len(places)), []).append(group)
    return [_Kind(tuple(same)) for same in alike.values()]


def extremes(sources: Sequence[Source], k_segments: int, *, crop: bool) -> tuple[int, int] | None:
    """Return the smallest and the largest total of K clips of K groups, or None when there are fewer groups."""
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
    """Return the smallest total above a given one that K clips of K groups can be brought to, or None.

    When no clips fit a target length, this is the next target length that some fit.
    """
    sizes: dict[str, set[int]] = {}
    for source in sources:
        sizes.setdefault(source.group, set()).add(least_kept(source, crop=crop))
    # Bit n of reached[k]: k clips can have n frames together.
    reached = [1] + [0] * k_segments
    for group in sizes.values():
        for k in range(k_segments, 0, -1):
            for size in group:
                reached[k] |= reached[k - 1] << size
    further = reached[k_segments] >> (above + 1)
    return above + (further & -further).bit_length() if further else None
