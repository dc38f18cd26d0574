"""What the camera sees: an arm of two links, its gripper, the goal, and a disc that means nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motionkit.environments._canvas import Canvas
from motionkit.environments.base import Floats
from motionkit.environments.reach._links import BASE

_BACKGROUND = (30, 32, 40)
_GREEN, _RED, _GREY, _YELLOW = (60, 190, 80), (205, 60, 55), (150, 152, 160), (240, 205, 60)
_DISC, _THICKNESS, _GRIPPER = 0.12, 0.045, 0.07


class Camera:
    """Draws the arm from above.

    Args:
        size: Height and width in pixels.
    """

    def __init__(self, size: int) -> None:
        self._canvas = Canvas(size)

    def __call__(self, gripper: Floats, elbow: Floats, goal: Floats, distractor: Floats | None) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB.

        Args:
            gripper: ``[N, 2]``.
            elbow: ``[N, 2]``.
            goal: ``[N, 2]``.
            distractor: ``[N, 2]``; None draws none.
        """

        def draw(part: slice) -> Floats:
            return self._draw(gripper[part], elbow[part], goal[part], None if distractor is None else distractor[part])

        return self._canvas.pictures(len(gripper), draw)

    def _draw(self, gripper: Floats, elbow: Floats, goal: Floats, distractor: Floats | None) -> Floats:
        shapes = self._canvas
        base = np.broadcast_to(np.array(BASE, np.float32), gripper.shape)
        # From the bottom to the top, so that the arm hides what is below it.
        canvas = shapes.blank(len(gripper), _BACKGROUND)
        if distractor is not None:
            shapes.disc(canvas, distractor, _DISC, _RED)
        shapes.disc(canvas, goal, _DISC, _GREEN)
        upper, lower = shapes.from_segment(base, elbow), shapes.from_segment(elbow, gripper)
        shapes.paint(canvas, np.minimum(upper, lower) - np.float32(_THICKNESS), _GREY)
        shapes.disc(canvas, gripper, _GRIPPER, _YELLOW)
        return canvas
