"""Masks as files have them: run-length encoding, polygons, or a black and white picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from motionkit.datasets.regions._images import Facts, load, read_picture, upright
from motionkit.datasets.regions._polygons import fill_polygons, polygon_area
from motionkit.datasets.regions._rle import draw_runs, runs_of
from motionkit.datasets.regions._rows import BAD_MASK, EMPTY_MASK, MASK_SIZE, NO_IMAGE, NO_MASK, UnusableError


def area_of(mask: object, facts: Facts, *, max_pixels: int) -> float:
    """Return the share of the picture that a mask covers, above 0; runs and polygons are not drawn for it.

    Args:
        mask: As for `draw_mask`.
        facts: Of the picture.
        max_pixels: Above so many a mask is not opened.

    Raises:
        UnusableError: As for `draw_mask`.
    """
    if isinstance(mask, Mapping) and mask:
        runs, size = runs_of(mask)
        _fitting(size, facts)
        share = float(runs[1::2].sum()) / (size[0] * size[1])
    elif isinstance(mask, (list, tuple)) and mask:
        share = polygon_area(mask, facts.size) / (facts.size[0] * facts.size[1])
    else:
        share = float(_drawn(mask, facts, max_pixels).mean())
    if share <= 0:
        raise UnusableError(EMPTY_MASK)
    return share


def draw_mask(mask: object, facts: Facts, *, max_pixels: int, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return ``[H, W]`` bool, upright.

    Args:
        mask: COCO RLE, a polygon ``[x, y, x, y, ...]`` or a list of them in pixels of the upright picture, or the path
            of a picture that is bright inside.
        facts: Of the picture.
        max_pixels: Above so many a mask is not opened.
        size: ``(H, W)``; a mask of a larger picture is scaled down to it, and does not vanish.

    Raises:
        UnusableError: It is none of these, of another size than the picture, or empty.
    """
    found = _drawn(mask, facts, max_pixels)
    if not found.any():
        raise UnusableError(EMPTY_MASK)
    if found.shape == size:
        return found
    grey = Image.fromarray(found.astype(np.uint8) * 255).resize(size[::-1], Image.Resampling.BOX)
    values = np.asarray(grey)
    return np.asarray(values >= min(128, int(values.max())))


def _drawn(mask: object, facts: Facts, max_pixels: int) -> NDArray[np.bool_]:
    if mask is None or (isinstance(mask, (list, tuple, str, Mapping)) and not mask):
        raise UnusableError(NO_MASK)
    if isinstance(mask, Path):
        found = _picture(mask, max_pixels)
    elif isinstance(mask, Mapping):
        runs, size = runs_of(mask)
        _fitting(size, facts)
        found = draw_runs(runs, size)
    else:
        return fill_polygons(mask, facts.size)
    _fitting(found.shape, facts)
    return upright(found, facts.turn) if found.shape != facts.size else found


def _fitting(size: tuple[int, ...], facts: Facts) -> None:
    """Refuse a mask that fits neither the upright picture nor the stored one."""
    if size not in (facts.size, facts.stored):
        (height, width), (own_height, own_width) = size, facts.size
        raise UnusableError(MASK_SIZE, f"{width} x {height}, the image {own_width} x {own_height}")


def _picture(path: Path, max_pixels: int) -> NDArray[np.bool_]:
    """Return a mask from a picture: True where it is brighter than half of its brightest pixel."""
    try:
        data = read_picture(path)
        colours = load(data, max_pixels=max_pixels, max_side=0, ground="black")
    except UnusableError as error:
        raise UnusableError(NO_MASK if error.reason == NO_IMAGE else BAD_MASK, error.detail) from error
    grey = colours.max(-1)
    return np.asarray(grey > int(grey.max()) // 2) if grey.any() else np.zeros(grey.shape, np.bool_)
