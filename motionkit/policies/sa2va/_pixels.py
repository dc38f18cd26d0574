"""Pixels as the two encoders read them: tiles of an image, and the whole image at one size.

The recipes of Sa2VA's published code: the vision encoder sees up to N square tiles whose grid is close to the image's
aspect, and a thumbnail behind them where there is more than one; SAM sees the raw image, squeezed to a square.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

_MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
_STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
"""Of ImageNet."""


def tiles_of(image: NDArray[np.uint8], side: int, most: int) -> Tensor:
    """Return ``[T, 3, side, side]``: up to `most` tiles, row by row, and a thumbnail last where there are several.

    Args:
        image: ``[H, W, 3]``.
        side: Pixels of a tile.
        most: Most tiles.
    """
    picture = Image.fromarray(image)
    columns, rows = grid_of(picture.width, picture.height, side, most)
    whole = picture.resize((columns * side, rows * side))
    found = [
        whole.crop((column * side, row * side, (column + 1) * side, (row + 1) * side))
        for row in range(rows)
        for column in range(columns)
    ]
    if len(found) > 1:
        found.append(picture.resize((side, side)))
    return torch.stack([_normalised(one) for one in found])


def square_of(image: NDArray[np.uint8], side: int) -> Tensor:
    """Return ``[3, side, side]``: the whole image ``[H, W, 3]``, squeezed."""
    return _normalised(Image.fromarray(image).resize((side, side)))


def grid_of(width: int, height: int, side: int, most: int) -> tuple[int, int]:
    """Return columns and rows of tiles whose aspect is closest to an image's.

    Of two that are equally close the larger is taken if the image fills more than half of it.
    """
    best, gap = (1, 1), float("inf")
    for columns, rows in _grids(most):
        distance = abs(width / height - columns / rows)
        fills = width * height > 0.5 * side * side * columns * rows
        if distance < gap or (distance == gap and fills):
            best, gap = (columns, rows), distance
    return best


@lru_cache(maxsize=16)
def _grids(most: int) -> tuple[tuple[int, int], ...]:
    pairs = ((columns, rows) for columns in range(1, most + 1) for rows in range(1, most // columns + 1))
    return tuple(sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair)))


def _normalised(picture: Image.Image) -> Tensor:
    pixels = torch.from_numpy(np.asarray(picture, np.float32).copy()).permute(2, 0, 1) / 255
    return (pixels - _MEAN) / _STD
