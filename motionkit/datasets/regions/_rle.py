"""COCO's run-length encoding: lengths of runs of 0 and 1 in turn, column after column, plain or as letters.

The letters hold 5 bits each, from ``0`` up, with a sixth bit that says that more follow; from the fourth number on they
hold the difference to the number before the last (pycocotools, ``maskApi.c``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.regions._rows import BAD_MASK, UnusableError

_LETTERS = 10  # of one number: 50 bits
_LARGEST = 10**9  # pixels of a mask: sums of runs up to this fit into 64 bits, however many there are


def runs_of(rle: Mapping[str, Any]) -> tuple[NDArray[np.int64], tuple[int, int]]:
    """Return the lengths of the runs, the first of pixels outside, and ``(height, width)``.

    Args:
        rle: ``{"size": [H, W], "counts": ...}``; counts are a text, bytes or a list of whole numbers.

    Raises:
        UnusableError: It is no such encoding, or the runs are not as long as the size says.
    """
    size, counts = rle.get("size"), rle.get("counts")
    if not (isinstance(size, (list, tuple)) and len(size) == 2 and all(type(one) is int and one > 0 for one in size)):
        raise UnusableError(BAD_MASK, "RLE without a size")
    height, width = int(size[0]), int(size[1])
    pixels = height * width
    if pixels > _LARGEST:
        raise UnusableError(BAD_MASK, f"RLE of {height:,} x {width:,} pixels")
    if isinstance(counts, str):
        counts = counts.encode("utf-8")
    if isinstance(counts, (bytes, bytearray)):
        runs = _from_letters(np.frombuffer(counts, np.uint8), pixels)
    elif isinstance(counts, (list, tuple)) and all(type(one) is int and 0 <= one <= pixels for one in counts):
        runs = np.array(counts, np.int64)
    else:
        raise UnusableError(BAD_MASK, "RLE without counts")
    if (runs < 0).any() or (runs > pixels).any() or int(runs.sum()) != pixels:
        raise UnusableError(BAD_MASK, f"RLE whose runs are not those of {height} x {width} pixels")
    return runs, (height, width)


def _from_letters(letters: NDArray[np.uint8], most: int) -> NDArray[np.int64]:
    """Return the numbers; refuse any that is not within `most` of 0, as a run and a difference of two runs are."""
    values = letters.astype(np.int64) - 48
    last = (values & 32) == 0  # the letter that ends a number
    if not len(values) or values.min() < 0 or values.max() > 63 or not last[-1]:
        raise UnusableError(BAD_MASK, "RLE with letters that are none")
    ends = np.flatnonzero(last)
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(len(values)) - np.repeat(starts, ends - starts + 1)
    if place.max() >= _LETTERS:
        raise UnusableError(BAD_MASK, "RLE with a number of many letters")
    numbers = np.add.reduceat((values & 31) << (5 * place), starts)
    negative = (values[ends] & 16) > 0
    numbers = numbers - (negative.astype(np.int64) << (5 * (place[ends] + 1)))
    if abs(numbers).max() > most:
        raise UnusableError(BAD_MASK, "RLE with a run longer than the mask")
    runs: NDArray[np.int64] = numbers.copy()
    runs[1::2] = numbers[1::2].cumsum()
    runs[2::2] = numbers[2::2].cumsum()
    return runs


def draw_runs(runs: NDArray[np.int64], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return ``[H, W]`` bool for runs as `runs_of` returns them."""
    height, width = size
    inside = np.arange(len(runs)) % 2 == 1
    return np.repeat(inside, runs).reshape(width, height).T.copy()
