"""The player's camera: an orbit around a point, and perspective. ``camera.js`` is the same in the browser."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Camera:
    """A view.

    Attributes:
        target: The point in the middle of the picture, metres.
        yaw: Radians around the vertical; at 0 the camera stands on the +Z side and looks towards -Z.
        pitch: Radians above the horizon.
        distance: Metres from the target.
        width: Pixels.
        height: Pixels.
        fov: Vertical field of view in radians.
        shift: Pixels by which the target lies below the middle of the picture.
    """

    target: tuple[float, float, float]
    yaw: float
    pitch: float
    distance: float
    width: float
    height: float
    fov: float
    shift: float = 0.0

    @property
    def focal(self) -> float:
        """Pixels per metre at a depth of one metre."""
        return self.height / 2 / math.tan(self.fov / 2)

    def axes(self) -> tuple[Floats, Floats]:
        """Return where the camera stands, ``[3]``, and its right, up and forward directions as rows, ``[3, 3]``."""
        sy, cy, sp, cp = math.sin(self.yaw), math.cos(self.yaw), math.sin(self.pitch), math.cos(self.pitch)
        forward = np.array([-sy * cp, -sp, -cy * cp])
        eye = np.array(self.target) - self.distance * forward
        return eye, np.array([[cy, 0.0, -sy], [-sy * sp, cp, -cy * sp], forward])

    def see(self, points: Floats) -> Floats:
        """Return points ``[..., 3]`` of the world as the camera sees them: metres to the right, up and away."""
        eye, axes = self.axes()
        seen: Floats = (points - eye) @ axes.T
        return seen

    def place(self, seen: Floats) -> Floats:
        """Return the pixels ``[..., 2]`` of points that `see` returned; they must be in front of the camera."""
        scale = self.focal / seen[..., 2:]
        placed: Floats = seen[..., :2] * scale * np.array([1.0, -1.0]) + np.array(
            [self.width / 2, self.height / 2 + self.shift]
        )
        return placed


def fit_distance(width: float, height: float, fov: float, tall: float, reach: float, spare: float) -> float:
    """Return the distance from which a body shows whole.

    Args:
        width: Pixels.
        height: Pixels.
        fov: Vertical field of view in radians.
        tall: Metres from its lowest to its highest point.
        reach: Metres from its middle to its farthest point, seen from above.
        spare: Pixels of the height that texts take.
    """
    slope = math.tan(fov / 2)
    free = max(1 - spare / height, 0.5)
    return max(tall * 0.58 / (slope * free), reach / (slope * width / height)) + reach * 0.3


def panels(count: int, width: float, height: float) -> tuple[int, int]:
    """Return the columns and rows in which `count` upright pictures come out largest."""
    sizes = [min(width / columns / 0.85, height / math.ceil(count / columns)) for columns in range(1, count + 1)]
    columns = sizes.index(max(sizes)) + 1
    return columns, math.ceil(count / columns)
