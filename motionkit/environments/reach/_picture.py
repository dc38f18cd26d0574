"""What the camera sees: discs and capsules with soft edges, from signed distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motionkit.environments.base import Floats

BASE = (0.0, -0.95)
"""Where the arm is mounted, in [-1, 1]^2 with y up."""

LINK = 0.95
"""Length of each of the two links: they reach every corner of the workspace."""

_AT_ONCE = 6  # pictures per pass: their arrays stay in the cache
_BACKGROUND = (30, 32, 40)
_GREEN, _RED, _GREY, _YELLOW = (60, 190, 80), (205, 60, 55), (150, 152, 160), (240, 205, 60)
_DISC, _THICKNESS, _GRIPPER = 0.12, 0.045, 0.07


class Camera:
    """Draws the arm from above.

    Args:
        size: Height and width in pixels.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        centres = ((np.arange(size, dtype=np.float32) + 0.5) / size) * 2 - 1
        self._x, self._y = centres[None, None, :], -centres[None, :, None]  # the first row of a picture is the highest

    def __call__(self, gripper: Floats, goal: Floats, distractor: Floats | None) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB.

        Args:
            gripper: ``[N, 2]``.
            goal: ``[N, 2]``.
            distractor: ``[N, 2]``; None draws none.
        """
        pictures = np.empty((len(gripper), self.size, self.size, 3), np.uint8)
        for start in range(0, len(gripper), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            pictures[part] = self._draw(gripper[part], goal[part], None if distractor is None else distractor[part])
        return pictures

    def _draw(self, gripper: Floats, goal: Floats, distractor: Floats | None) -> NDArray[np.uint8]:
        elbow = elbows(gripper)
        base = np.broadcast_to(np.array(BASE, np.float32), gripper.shape)
        # [N, H, W, 3]: from the bottom to the top, so that the arm hides what is below it.
        canvas = np.empty((len(gripper), self.size, self.size, 3), np.float32)
        canvas[:] = _BACKGROUND
        if distractor is not None:
            self._paint(canvas, self._from_point(distractor) - _DISC, _RED)
        self._paint(canvas, self._from_point(goal) - _DISC, _GREEN)
        upper, lower = self._from_segment(base, elbow), self._from_segment(elbow, gripper)
        self._paint(canvas, np.minimum(upper, lower) - np.float32(_THICKNESS), _GREY)
        self._paint(canvas, self._from_point(gripper) - _GRIPPER, _YELLOW)
        return (canvas + 0.5).astype(np.uint8)

    def _paint(self, canvas: Floats, distance: Floats, colour: tuple[int, int, int]) -> None:
        """Blend a colour over the canvas; the edge, where the distance is 0, is one pixel soft."""
        cover = np.clip(0.5 - distance * (self.size / 2), 0, 1)
        for channel, value in enumerate(colour):
            plane = canvas[..., channel]
            plane += cover * (value - plane)

    def _from_point(self, point: Floats) -> Floats:
        along, up = self._x - point[:, 0, None, None], self._y - point[:, 1, None, None]
        distance: Floats = np.sqrt(along * along + up * up)
        return distance

    def _from_segment(self, first: Floats, second: Floats) -> Floats:
        edge = second - first
        along, up = self._x - first[:, 0, None, None], self._y - first[:, 1, None, None]
        ex, ey = edge[:, 0, None, None], edge[:, 1, None, None]
        share = np.clip((along * ex + up * ey) / np.maximum(ex * ex + ey * ey, 1e-9), 0, 1)
        distance: Floats = np.sqrt((along - share * ex) ** 2 + (up - share * ey) ** 2)
        return distance


def elbows(gripper: Floats) -> Floats:
    """Return the elbow ``[N, 2]`` of an arm whose gripper is at ``[N, 2]``, bent to the right: inverse kinematics."""
    reach = gripper - np.array(BASE, np.float32)
    half = reach / 2
    length = np.linalg.norm(reach, axis=1, keepdims=True)
    height = np.sqrt(np.maximum(LINK * LINK - (length / 2) ** 2, 0))
    side = np.stack([reach[:, 1], -reach[:, 0]], axis=1) / np.maximum(length, 1e-9)
    found: Floats = (np.array(BASE, np.float32) + half + height * side).astype(np.float32)
    return found
