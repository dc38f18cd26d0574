"""Masks from polygons: a pixel is inside when its middle is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.regions._rows import BAD_MASK, UnusableError

_MOST = 20_000
"""Points of a polygon."""

_CROSSINGS = 20_000_000
_FAR = 1e6


def fill_polygons(mask: object, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return ``[H, W]`` bool: pixels whose middle is in one of the polygons, where these cross themselves by even-odd.

    Pillow's own polygons also take in the pixels that a border touches: half a pixel on every side, a third of the area
    of a small region.

    Args:
        mask: A polygon ``[x, y, x, y, ...]`` or a list of them; 0 is the left or upper edge of the first pixel.
        size: ``(H, W)``.

    Raises:
        UnusableError: It is no polygon.
    """
    if not isinstance(mask, (list, tuple)):
        raise UnusableError(BAD_MASK, f"a {type(mask).__name__}")
    rings = [mask] if all(isinstance(one, (int, float)) for one in mask) else mask
    found = np.zeros(size, np.bool_)
    for ring in rings:
        _fill(found, _points(ring))
    return found


def _fill(found: NDArray[np.bool_], points: NDArray[np.float64]) -> None:
    """Add a polygon ``[P, 2]``: each border that is crossed on the way from the left switches inside and outside."""
    height, width = found.shape
    top = max(0, int(np.floor(points[:, 1].min())))
    bottom = min(height, int(np.ceil(points[:, 1].max())))
    ends = np.array([points[:, 0].min(), points[:, 0].max()])
    left, right = np.ceil(ends - 0.5).clip(0, width).astype(np.int64).tolist()  # of the columns that change
    if top >= bottom or left >= right:
        return
    middles = np.arange(top, bottom) + 0.5
    x, y = points.T
    next_x, next_y = np.roll(points, -1, 0).T
    first, last = (np.searchsorted(middles, side(y, next_y)) for side in (np.minimum, np.maximum))
    crossings = last - first  # rows whose middle a border crosses
    if crossings.sum() > _CROSSINGS:
        raise UnusableError(BAD_MASK, "a polygon with borders without end")
    edge = np.repeat(np.arange(len(points)), crossings)
    row = np.arange(len(edge)) - np.repeat(crossings.cumsum() - crossings, crossings) + first[edge]
    at = x[edge] + (middles[row] - y[edge]) * ((next_x - x)[edge] / (next_y - y)[edge])
    column = np.ceil(at - 0.5).clip(left, right).astype(np.int64) - left
    span = right - left + 1
    switches = np.bincount(row * span + column, minlength=len(middles) * span).reshape(-1, span)
    found[top:bottom, left:right] |= switches.cumsum(1)[:, :-1] % 2 == 1


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
