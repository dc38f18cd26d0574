"""Groups crops of different lengths into a few padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SMALLEST = 16
_SLACK = 1.25
_MOST_FRAMES = 32768


@dataclass(frozen=True)
class Crop:
    """Frames ``start .. start + length - 1`` of motion `row`."""

    row: int
    start: int
    length: int


def buckets(lengths: Sequence[int]) -> list[list[int]]:
    """Group indices by similar length, to keep padding small.

    A bucket is closed once it holds 16 items and the next is a quarter longer than its shortest, or when it would
    pass 32768 padded frames (which bounds memory).

    Args:
        lengths: One length per item.

    Returns:
        Lists of indices that together name each item once, shortest items first.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        group = groups[-1] if groups else []
        longer = bool(group) and len(group) >= _SMALLEST and lengths[index] > _SLACK * lengths[group[0]]
        if not group or longer or (len(group) + 1) * lengths[index] > _MOST_FRAMES:
            groups.append([index])
        else:
            group.append(index)
    return groups
