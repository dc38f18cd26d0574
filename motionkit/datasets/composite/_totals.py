"""Computes the total lengths that K clips of K groups can have."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.datasets.composite._sets import least_kept
from motionkit.datasets.composite._sources import Source


def extremes(sources: Sequence[Source], k_segments: int, *, crop: bool) -> tuple[int, int] | None:
    """Return the smallest and the largest total of K clips of K groups, or None when there are fewer groups.

    Args:
        sources: What there is.
        k_segments: K.
        crop: Whether a clip may be cut; the smallest total is then one of cut clips.
    """
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
