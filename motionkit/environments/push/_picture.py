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
        shapes, count = self._canvas, len(block)
        canvas = shapes.blank(count, _FLOOR)
        square = shapes.from_square(block[:, :2], block[:, 2], HALF)
        away = np.float32(9)
        # The table hides what of a fallen block is below it.
        shapes.paint(canvas, np.where(fallen[:, None, None], square, away), _FALLEN)
        middle = np.zeros((count, 2), np.float32)
        shapes.paint(canvas, shapes.from_square(middle, middle[:, 0], TABLE), _TABLE)
        shapes.paint(canvas, shapes.from_point(goal) - _DISC, _GREEN)
        shapes.paint(canvas, np.where(fallen[:, None, None], away, square), _BLUE)
        shapes.paint(canvas, shapes.from_point(finger) - FINGER, _YELLOW)
        return canvas
