"""Masks in files: run-length encoding, polygons, or a black and white picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from motionkit_regions.datasets.images import Facts, brightness, read_picture, upright
from motionkit_regions.datasets.rows import BAD_MASK, EMPTY_MASK, MASK_SIZE, NO_IMAGE, NO_MASK, UnusableError

_MOST = 20_000  # points of a polygon
_RINGS = 1_000  # polygons of a mask
_CROSSINGS = 8_000_000  # most rows that the borders of a mask's polygons may cross together, which takes about a second
_FAR = 1e6

_LETTERS = 10  # of one number: 50 bits
_LARGEST = 10**9  # pixels of a mask: sums of runs up to this fit into 64 bits, however many there are


def area_of(mask: object, facts: Facts, *, max_pixels: int) -> float:
    """Return the share of the picture that a mask covers, above 0, without drawing runs and polygons."""
    if isinstance(mask, Mapping) and mask:
        runs, size = runs_of(mask)
        _fitting(size, facts)
        share = float(runs[1::2].sum()) / (size[0] * size[1])
    elif isinstance(mask, (list, tuple)) and mask and not _joined(mask):
        share = polygon_area(mask, facts.size) / (facts.size[0] * facts.size[1])
    else:
        share = float(_drawn(mask, facts, max_pixels).mean())
    if share <= 0:
        raise UnusableError(EMPTY_MASK)
    return share


def draw_mask(mask: object, facts: Facts, *, max_pixels: int, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return ``[H, W]`` bool, upright, scaled down to `size` so that no mask vanishes.

    `mask` is COCO RLE or a list of them, a polygon ``[x, y, x, y, ...]`` or ``[[x, y], ...]`` or a list of either in
    pixels of the upright picture, or the path of a picture that is bright inside. Polygons without area are left out.
    """
    drawn = _drawn(mask, facts, max_pixels)
    if not drawn.any():
        raise UnusableError(EMPTY_MASK)
    if drawn.shape == size:
        return drawn
    grey = Image.fromarray(drawn.astype(np.uint8) * 255).resize(size[::-1], Image.Resampling.BOX)
    values = np.asarray(grey)
    return np.asarray(values >= min(128, int(values.max())))


def _drawn(mask: object, facts: Facts, max_pixels: int) -> NDArray[np.bool_]:
    if mask is None or (isinstance(mask, (list, tuple, str, Mapping)) and not mask):
        raise UnusableError(NO_MASK)
    if isinstance(mask, Path):
        drawn = _picture(mask, max_pixels)
    elif isinstance(mask, Mapping):
        runs, size = runs_of(mask)
        _fitting(size, facts)
        drawn = draw_runs(runs, size)
    elif parts := _joined(mask):
        whole: NDArray[np.bool_] = np.logical_or.reduce([_drawn(part, facts, max_pixels) for part in parts])
        return whole
    else:
        return fill_polygons(mask, facts.size)
    _fitting(drawn.shape, facts)
    return upright(drawn, facts.turn) if drawn.shape != facts.size else drawn


def _joined(mask: object) -> list[Mapping[str, Any]]:
    """Return the parts of a mask that is a list of RLE; empty for any other mask."""
    parts = list(mask) if isinstance(mask, (list, tuple)) and len(mask) <= _RINGS else []
    return parts if all(isinstance(part, Mapping) for part in parts) else []


def _fitting(size: tuple[int, ...], facts: Facts) -> None:
    """Refuse a mask that fits neither the upright picture nor the stored one."""
    if size not in (facts.size, facts.stored):
        (height, width), (own_height, own_width) = size, facts.size
        raise UnusableError(MASK_SIZE, f"{width} x {height}, the image {own_width} x {own_height}")


def _picture(path: Path, max_pixels: int) -> NDArray[np.bool_]:
    """Return a mask from a picture: pixels brighter than half of the brightest one, in the picture's own depth."""
    try:
        data = read_picture(path)
        grey = brightness(data, max_pixels=max_pixels)
    except UnusableError as error:
        raise UnusableError(NO_MASK if error.reason == NO_IMAGE else BAD_MASK, error.detail) from error
    return np.asarray(grey > grey.max() / 2) if grey.any() else np.zeros(grey.shape, np.bool_)


def fill_polygons(mask: object, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return ``[H, W]`` bool: pixels whose middle is in one of the polygons, by the even-odd rule.

    Pillow's polygons also include the pixels that a border touches: half a pixel on every side, a third of the area of
    a small region.

    Args:
        mask: A polygon ``[x, y, x, y, ...]`` or a list of them; 0 is the left or upper edge of the first pixel.
        size: ``(H, W)``.
    """
    runs = _runs(mask, size)
    inside = np.arange(len(runs)) % 2 == 1
    return np.repeat(inside, runs).reshape(size)


def polygon_area(mask: object, size: tuple[int, int]) -> int:
    """Return the area that `fill_polygons` would fill, in pixels, without filling it."""
    return int(_runs(mask, size)[1::2].sum())


def _runs(mask: object, size: tuple[int, int]) -> NDArray[np.int64]:
    """Return lengths of runs of pixels outside and inside in turn, row after row."""
    if not isinstance(mask, (list, tuple)):
        raise UnusableError(BAD_MASK, f"a {type(mask).__name__}")
    rings = [mask] if _is_ring(mask) else mask
    if len(rings) > _RINGS:
        raise UnusableError(BAD_MASK, f"{len(rings):,} polygons")
    rings = [_flat(ring) for ring in rings]
    # Two points have no area: tools that draw polygons leave such pieces behind.
    rings = [ring for ring in rings if not (isinstance(ring, (list, tuple)) and len(ring) in (0, 2, 4))]
    if not rings:
        raise UnusableError(BAD_MASK, "no polygon has three points x, y or more")
    left = _CROSSINGS
    edges = [np.zeros(0, np.int64)]
    for ring in rings:
        edges.append(_edges(_points(ring), size, left))
        left -= len(edges[-1])
    starts, ends = np.concatenate(edges).reshape(-1, 2).T
    if len(rings) > 1 and len(starts):  # several polygons may overlap
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
        apart = starts[1:] > ends[:-1]
        starts, ends = starts[np.r_[True, apart]], ends[np.r_[apart, True]]
    return np.diff(np.stack([starts, ends], 1).reshape(-1), prepend=0, append=size[0] * size[1])


def _is_ring(values: object) -> bool:
    """Return whether a list is one polygon: numbers in turn, or points of two numbers."""
    if not isinstance(values, (list, tuple)):
        return False
    flat = all(isinstance(value, (int, float)) for value in values)
    return flat or all(_is_point(value) for value in values)


def _is_point(value: object) -> bool:
    return (
        isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(part, (int, float)) for part in value)
    )


def _flat(ring: object) -> object:
    """Return the numbers of a polygon whose points are pairs; any other one as it is."""
    if isinstance(ring, (list, tuple)) and ring and all(_is_point(point) for point in ring):
        return [number for point in ring for number in point]
    return ring


def _edges(points: NDArray[np.float64], size: tuple[int, int], most: int) -> NDArray[np.int64]:
    """Return begins and ends, in turn, of the runs inside a polygon ``[P, 2]``, as sorted pixel indices (scanline).

    Along a row each border switches between inside and outside; a row crosses an even number.
    """
    height, width = size
    x, y = points.T
    next_x, next_y = np.roll(points, -1, 0).T
    first, last = (np.ceil(side(y, next_y) - 0.5).clip(0, height).astype(np.int64) for side in (np.minimum, np.maximum))
    crossings = last - first  # rows whose middle a border crosses
    if crossings.sum() > most:
        raise UnusableError(BAD_MASK, "polygons whose borders are too long")
    border = np.repeat(np.arange(len(points)), crossings)
    row = np.arange(len(border)) - np.repeat(crossings.cumsum() - crossings, crossings) + first[border]
    at = x[border] + (row + 0.5 - y[border]) * ((next_x - x)[border] / (next_y - y)[border])
    return np.sort(row * width + np.ceil(at - 0.5).clip(0, width).astype(np.int64))


def _points(ring: object) -> NDArray[np.float64]:
    if (
        not isinstance(ring, (list, tuple))
        or not all(type(value) in (int, float) for value in ring)
        or not 6 <= len(ring) <= 2 * _MOST
        or len(ring) % 2
    ):
        raise UnusableError(BAD_MASK, "a polygon needs three points x, y or more")
    try:
        values = np.array(ring, np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        values = np.array([np.inf])
    if not np.isfinite(values).all() or abs(values).max() > _FAR:
        raise UnusableError(BAD_MASK, "a polygon with numbers that are not pixels")
    return values.reshape(-1, 2)


def runs_of(rle: Mapping[str, Any]) -> tuple[NDArray[np.int64], tuple[int, int]]:
    """Return the lengths of the runs of COCO's encoding, the first of pixels outside, and ``(height, width)``.

    The runs are of 0 and 1 in turn, column after column.

    Args:
        rle: ``{"size": [H, W], "counts": ...}``; counts are a text, bytes or a list of whole numbers.
    """
    size, counts = rle.get("size"), rle.get("counts")
    if not (
        isinstance(size, (list, tuple)) and len(size) == 2 and all(type(value) is int and value > 0 for value in size)
    ):
        raise UnusableError(BAD_MASK, "RLE without a size")
    height, width = int(size[0]), int(size[1])
    pixels = height * width
    if pixels > _LARGEST:
        raise UnusableError(BAD_MASK, f"RLE of {height:,} x {width:,} pixels")
    if isinstance(counts, str):
        counts = counts.encode("utf-8")
    if isinstance(counts, (bytes, bytearray)):
        runs = _from_letters(np.frombuffer(counts, np.uint8), pixels)
    elif isinstance(counts, (list, tuple)) and all(type(value) is int and 0 <= value <= pixels for value in counts):
        runs = np.array(counts, np.int64)
    else:
        raise UnusableError(BAD_MASK, "RLE without counts")
    if (runs < 0).any() or (runs > pixels).any() or int(runs.sum()) != pixels:
        raise UnusableError(BAD_MASK, f"RLE whose runs are not those of {height} x {width} pixels")
    return runs, (height, width)


def _from_letters(letters: NDArray[np.uint8], most: int) -> NDArray[np.int64]:
    """Decode the numbers; a run, or a difference of two runs, has an absolute value of at most `most`.

    A letter has 5 bits of a number, from ``0`` up, and a continuation bit; from the fourth number on they encode the
    difference to the number before the last (pycocotools, ``maskApi.c``).
    """
    values = letters.astype(np.int64) - 48
    last = (values & 32) == 0  # the letter that ends a number
    if not len(values) or values.min() < 0 or values.max() > 63 or not last[-1]:
        raise UnusableError(BAD_MASK, "RLE with invalid letters")
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
