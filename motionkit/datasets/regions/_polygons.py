"""Masks from polygons: a pixel is inside when its middle is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.regions._rows import BAD_MASK, UnusableError

_MOST = 20_000
"""Points of a polygon."""

_RINGS = 1_000
"""Polygons of a mask."""

_CROSSINGS = 8_000_000
"""Rows that the borders of a mask's polygons may cross together, which takes about a second."""

_FAR = 1e6


def fill_polygons(mask: object, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return ``[H, W]`` bool: pixels whose middle is in one of the polygons, where these cross themselves by even-odd.

    Pillow's own polygons also take in the pixels that a border touches: half a pixel on every side, a third of the area
    of a small region.

    Args:
        mask: A polygon ``[x, y, x, y, ...]`` or a list of them; 0 is the left or upper edge of the first pixel.
        size: ``(H, W)``.

    Raises:
        UnusableError: It is no polygon, there are too many, or their borders are too long.
    """
    runs = _runs(mask, size)
    inside = np.arange(len(runs)) % 2 == 1
    return np.repeat(inside, runs).reshape(size)


def polygon_area(mask: object, size: tuple[int, int]) -> int:
    """Return how many pixels `fill_polygons` would fill, without filling them.

    Raises:
        UnusableError: As for `fill_polygons`.
    """
    return int(_runs(mask, size)[1::2].sum())


def _runs(mask: object, size: tuple[int, int]) -> NDArray[np.int64]:
    """Return lengths of runs of pixels outside and inside in turn, row after row."""
    if not isinstance(mask, (list, tuple)):
        raise UnusableError(BAD_MASK, f"a {type(mask).__name__}")
    rings = [mask] if all(isinstance(one, (int, float)) for one in mask) else mask
    if len(rings) > _RINGS:
        raise UnusableError(BAD_MASK, f"{len(rings):,} polygons")
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


def _edges(points: NDArray[np.float64], size: tuple[int, int], most: int) -> NDArray[np.int64]:
    """Return where the runs inside a polygon ``[P, 2]`` begin and end in turn, sorted, counted row after row.

    Each border that is crossed on the way from the left switches inside and outside; a row crosses an even number.
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
        or not all(type(one) in (int, float) for one in ring)
        or not 6 <= len(ring) <= 2 * _MOST
        or len(ring) % 2
    ):
        raise UnusableError(BAD_MASK, "a polygon needs three points x, y or more")
    try:
        values = np.array(ring, np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        values = np.array([np.inf])
    if not np.isfinite(values).all() or abs(values).max() > _FAR:
        raise UnusableError(BAD_MASK, "a polygon with numbers that are no pixels")
    return values.reshape(-1, 2)
