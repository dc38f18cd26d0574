"""Pictures of shapes with soft edges, from signed distances, and the base of the environments that are drawn so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from motionkit_success.environments.base import Floats, Step

CAMERA = "base_camera"
Colour = tuple[int, int, int]

_AT_ONCE = 6  # pictures per pass: their arrays stay in the cache


class Canvas:
    """Draws pictures of the square ``[-1, 1]^2`` with y up."""

    def __init__(
        self,
        size: int,  # height and width in pixels
    ) -> None:
        self.size = size
        self._centres = ((np.arange(size, dtype=np.float32) + 0.5) / size) * 2 - 1
        # The first row of a picture is the highest.
        self._x, self._y = self._centres[None, None, :], -self._centres[None, :, None]

    def pictures(self, count: int, draw: Callable[[slice], Floats]) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB; `draw` returns the canvases of a slice of them."""
        pictures = np.empty((count, self.size, self.size, 3), np.uint8)
        for start in range(0, count, _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, count))
            pictures[part] = (draw(part) + 0.5).astype(np.uint8)
        return pictures

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

    def disc(self, canvas: Floats, middle: Floats, radius: float, colour: Colour) -> None:
        """Paint discs around ``[N, 2]``."""

        def distance(x: Floats, y: Floats) -> Floats:
            signed: Floats = np.sqrt(x * x + y * y) - np.float32(radius)
            return signed

        self._near(canvas, middle, radius, distance, colour)

    def square(self, canvas: Floats, middle: Floats, angle: Floats, half: float, colour: Colour) -> None:
        """Paint squares of side 2 `half` around ``[N, 2]``, turned by ``[N]`` radians counterclockwise."""
        cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]

        def distance(x: Floats, y: Floats) -> Floats:
            across = np.abs(cos * x + sin * y) - np.float32(half)
            along = np.abs(cos * y - sin * x) - np.float32(half)
            outside = np.sqrt(np.maximum(across, 0) ** 2 + np.maximum(along, 0) ** 2)
            signed: Floats = outside + np.minimum(np.maximum(across, along), 0)
            return signed

        self._near(canvas, middle, half * 2**0.5, distance, colour)

    def _near(
        self, canvas: Floats, middle: Floats, reach: float, distance: Callable[[Floats, Floats], Floats], colour: Colour
    ) -> None:
        """Paint a shape within `reach` of its middle; other pixels are not touched."""
        most = int(np.ceil(reach * self.size / 2)) + 1
        box = np.arange(-most, most + 1)
        last = self.size - 1
        # Pixels outside are clamped to the edge, which is then painted twice with the same colour.
        columns = (np.floor((middle[:, 0, None] + 1) / 2 * self.size).astype(int) + box).clip(0, last)
        rows = (np.floor((1 - middle[:, 1, None]) / 2 * self.size).astype(int) + box).clip(0, last)
        x = self._centres[columns][:, None, :] - middle[:, 0, None, None]
        y = -self._centres[rows][:, :, None] - middle[:, 1, None, None]
        cover = np.clip(0.5 - distance(x, y) * (self.size / 2), 0, 1)[..., None]
        place = np.arange(len(canvas))[:, None, None], rows[:, :, None], columns[:, None, :]
        below = canvas[place]
        canvas[place] = below + cover * (np.array(colour, np.float32) - below)

    def from_segment(self, first: Floats, second: Floats) -> Floats:
        """Return the distance of each pixel to the segment between two points ``[N, 2]``."""
        edge = second - first
        along, up = self._x - first[:, 0, None, None], self._y - first[:, 1, None, None]
        ex, ey = edge[:, 0, None, None], edge[:, 1, None, None]
        share = np.clip((along * ex + up * ey) / np.maximum(ex * ex + ey * ey, 1e-9), 0, 1)
        distance: Floats = np.sqrt((along - share * ex) ** 2 + (up - share * ey) ** 2)
        return distance


class Drawn:
    """N copies of a task that is drawn from above; see `motionkit_success.environments.base.Environment`.

    Only the start of an episode is random.
    """

    def __init__(self, options: Any, num_envs: int) -> None:
        self.options, self.num_envs, self.max_steps = options, num_envs, options.max_steps
        self.cameras = {CAMERA: (options.size, options.size)}
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)

    def _begin(self, copy: int, seed: int) -> None:
        """Begin an episode in a copy."""
        raise NotImplementedError

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit_success.environments.base.Environment.reset`."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            self._begin(copy, seed)
        self._elapsed[copies], self._over[copies] = 0, False

    def _stepped(self, distance: NDArray[Any], fallen: NDArray[np.bool_] | bool = False) -> Step:
        """Return the result of a step, after which things are at a distance from their goal, or fallen."""
        self._elapsed += ~self._over
        success = (distance < self.options.radius) & ~np.asarray(fallen)
        reward = success.astype(np.float32) if self.options.reward == "sparse" else -distance
        terminated = fallen | (success & self.options.terminate_on_success)
        truncated = ~terminated & (self._elapsed >= self.max_steps)
        self._over |= terminated | truncated
        return Step(reward.astype(np.float32), success, terminated, truncated, ({},) * self.num_envs)

    def close(self) -> None:
        """Nothing is open."""
