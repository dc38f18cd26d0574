"""An image with a mask laid over it, small enough for a page."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

_LONGEST, _LEAST = 320, 240
"""Pixels of the longer side: larger images are made smaller, much smaller ones are enlarged by a whole factor."""

_DIM = 0.3
"""Light of an image outside of the mask."""

_EDGE = (255, 214, 10)
"""Colour of the outline of the wanted region."""

_QUALITY = 82


def picture(
    image: NDArray[np.uint8], mask: NDArray[np.bool_] | None = None, wanted: NDArray[np.bool_] | None = None
) -> bytes:
    """Return an image as WebP, dark outside of a mask.

    Args:
        image: ``[H, W, 3]``, any size.
        mask: ``[h, w]``, of any size as well; None leaves the image as it is.
        wanted: ``[h, w]``, whose outline is drawn.
    """
    from PIL import Image

    height, width = image.shape[:2]
    longest = max(height, width)
    scale = _LONGEST / longest if longest > _LONGEST else max(1, -(-_LEAST // longest))
    size = max(1, round(height * scale)), max(1, round(width * scale))
    drawn = Image.fromarray(image)
    how = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST
    pixels = np.asarray(drawn.resize(size[::-1], how), dtype=np.float64)
    if mask is not None:
        pixels = pixels * np.where(_at(mask, size), 1.0, _DIM)[..., None]
    if wanted is not None:
        pixels = np.where(_edge(_at(wanted, size))[..., None], _EDGE, pixels)
    data = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(data, "WEBP", lossless=scale >= 1, quality=_QUALITY)
    return data.getvalue()


def _at(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return a mask at another size: each pixel takes the cell that it lies in."""
    rows = np.arange(size[0]) * mask.shape[0] // size[0]
    columns = np.arange(size[1]) * mask.shape[1] // size[1]
    return np.asarray(mask[rows][:, columns])


def _edge(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pixels just inside of a mask's border, two wide."""
    inner = mask
    for _ in range(2):
        padded = np.pad(inner, 1, mode="edge")
        inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:] & inner
    return mask & ~inner
