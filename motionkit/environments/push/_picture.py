"""What the camera sees of the table: the goal, the block and the finger."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motionkit.environments._canvas import Canvas
from motionkit.environments.base import Floats
from motionkit.environments.push._contact import FINGER, HALF

TABLE = 0.8
"""Half of the side of the table, whose middle is that of the picture."""

_FLOOR, _TABLE = (14, 15, 19), (52, 56, 68)
_GREEN, _BLUE, _FALLEN, _YELLOW = (60, 190, 80), (90, 130, 235), (40, 52, 84), (240, 205, 60)
_DISC = 0.24


class Camera:
    """Draws the table from above.

    Args:
        size: Height and width in pixels.
    """

    def __init__(self, size: int) -> None:
        self._canvas = Canvas(size)
        self._table = self._canvas.blank(1, _FLOOR)
        middle = np.zeros((1, 2), np.float32)
        self._canvas.square(self._table, middle, middle[:, 0], TABLE, _TABLE)

    def __call__(self, block: Floats, finger: Floats, goal: Floats, fallen: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB.

        Args:
            block: ``[N, 3]`` middle and angle.
            finger: ``[N, 2]``.
            goal: ``[N, 2]``.
            fallen: ``[N]`` blocks that lie beside the table, on the floor.
        """
        return self._canvas.pictures(
            len(block), lambda part: self._draw(block[part], finger[part], goal[part], fallen[part])
        )

    def _draw(self, block: Floats, finger: Floats, goal: Floats, fallen: NDArray[np.bool_]) -> Floats:
        shapes = self._canvas
        canvas = np.repeat(self._table, len(block), axis=0)
        shapes.disc(canvas, goal, _DISC, _GREEN)
        shapes.square(canvas, block[:, :2], block[:, 2], HALF, _BLUE)
        for copy in np.flatnonzero(fallen).tolist():
            canvas[copy] = self._beside(block[copy], goal[copy])
        shapes.disc(canvas, finger, FINGER, _YELLOW)
        return canvas

    def _beside(self, block: Floats, goal: Floats) -> Floats:
        """Return the picture of a table with a block beside it, of which the table hides what is below."""
        shapes, middle = self._canvas, np.zeros((1, 2), np.float32)
        canvas = shapes.blank(1, _FLOOR)
        shapes.square(canvas, block[None, :2], block[None, 2], HALF, _FALLEN)
        shapes.square(canvas, middle, middle[:, 0], TABLE, _TABLE)
        shapes.disc(canvas, goal[None], _DISC, _GREEN)
        found: Floats = canvas[0]
        return found
