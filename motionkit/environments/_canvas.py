"""Pictures of shapes with soft edges, from signed distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from motionkit.environments.base import Floats

Colour = tuple[int, int, int]

_AT_ONCE = 6  # pictures per pass: their arrays stay in the cache


class Canvas:
    """Draws pictures of the square ``[-1, 1]^2`` with y up.

    Args:
        size: Height and width in pixels.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        centres = ((np.arange(size, dtype=np.float32) + 0.5) / size) * 2 - 1
        self._x, self._y = centres[None, None, :], -centres[None, :, None]  # the first row of a picture is the highest

    def pictures(self, count: int, draw: Callable[[slice], Floats]) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB.

        Args:
            count: N.
            draw: Returns the canvas of a part of them, a few at a time.
        """
        found = np.empty((count, self.size, self.size, 3), np.uint8)
        for start in range(0, count, _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, count))
            found[part] = (draw(part) + 0.5).astype(np.uint8)
        return found

    def blank(self, count: int, colour: Colour) -> Floats:
        """Return canvases ``[N, H, W, 3]`` float32 of one colour."""
        canvas = np.empty((count, self.size, self.size, 3), np.float32)
        canvas[:] = colour
        return canvas

    def paint(self, canvas: Floats, distance: Floats, colour: Colour) -> None:
        """Blend a colour over canvases; the edge, where the distance ``[N, H, W]`` is 0, is one pixel soft."""
        cover = np.clip(0.5 - distance * (self.size / 2), 0, 1)
        for channel, value in enumerate(colour):
            plane = canvas[..., channel]
            plane += cover * (value - plane)

    def from_point(self, point: Floats) -> Floats:
        """Return the distance of each pixel to a point ``[N, 2]``."""
        along, up = self._x - point[:, 0, None, None], self._y - point[:, 1, None, None]
        distance: Floats = np.sqrt(along * along + up * up)
        return distance

    def from_segment(self, first: Floats, second: Floats) -> Floats:
        """Return the distance of each pixel to the segment between two points ``[N, 2]``."""
        edge = second - first
        along, up = self._x - first[:, 0, None, None], self._y - first[:, 1, None, None]
        ex, ey = edge[:, 0, None, None], edge[:, 1, None, None]
        share = np.clip((along * ex + up * ey) / np.maximum(ex * ex + ey * ey, 1e-9), 0, 1)
        distance: Floats = np.sqrt((along - share * ex) ** 2 + (up - share * ey) ** 2)
        return distance

    def from_square(self, middle: Floats, angle: Floats, half: float) -> Floats:
        """Return the signed distance of each pixel to a square, negative inside.

        Args:
            middle: ``[N, 2]``.
            angle: ``[N]`` in radians, counterclockwise.
            half: Half of its side.
        """
        x, y = self._x - middle[:, 0, None, None], self._y - middle[:, 1, None, None]
        cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
        across, along = np.abs(cos * x + sin * y) - half, np.abs(cos * y - sin * x) - half
        outside = np.sqrt(np.maximum(across, 0) ** 2 + np.maximum(along, 0) ** 2)
        distance: Floats = outside + np.minimum(np.maximum(across, along), 0)
        return distance
