"""Pictures as every environment gives them: uint8 RGB of one size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from motionkit.errors import MotionkitError

_FIX = "choose an environment that draws itself: render_mode 'rgb_array', or --env.image-keys KEY."


def as_picture(value: Any, size: int, place: str) -> NDArray[np.uint8]:
    """Return a picture ``[size, size, 3]`` uint8 RGB.

    Args:
        value: ``[H, W, 3]`` or ``[3, H, W]``, uint8, or floats in [0, 1]; a batch of one counts, too.
        size: Height and width.
        place: What was asked, for messages.

    Raises:
        MotionkitError: It is none.
    """
    picture = np.asarray(value.cpu() if hasattr(value, "cpu") else value) if value is not None else np.zeros(0)
    if picture.ndim == 4 and len(picture) == 1:
        picture = picture[0]
    if picture.ndim != 3 or 3 not in (picture.shape[-1], picture.shape[0]):
        what = "no picture" if value is None else f"{type(value).__name__} {list(picture.shape)}"
        raise MotionkitError(f"{place} gives {what}.", why="[H, W, 3] is wanted.", fix=_FIX)
    if picture.shape[-1] != 3:
        picture = picture.transpose(1, 2, 0)
    if picture.dtype != np.uint8:
        if not (np.issubdtype(picture.dtype, np.floating) and picture.min() >= 0 and picture.max() <= 1):
            raise MotionkitError(
                f"{place} gives {picture.dtype} from {picture.min():g} to {picture.max():g}.",
                why="uint8, or floats from 0 to 1, are pictures.", fix=_FIX,
            )  # fmt: skip
        picture = (picture * 255 + 0.5).astype(np.uint8)
    if picture.shape[:2] != (size, size):
        picture = np.asarray(Image.fromarray(np.ascontiguousarray(picture)).resize((size, size), Image.Resampling.BOX))
    return np.ascontiguousarray(picture)
