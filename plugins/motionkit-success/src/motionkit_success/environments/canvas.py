"""Pictures of shapes with soft edges, from signed distances, and the base of the environments that are drawn so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from motionkit_success.environments.base import Floats, Step

CAMERA = "base_camera"
Colour = tuple[int, int, int]

_AT_ONCE = 16  # pictures per pass: their arrays stay in the cache


class Canvas:
    """Draws pictures of the square ``[-1, 1]^2`` with y up."""

    def __init__(
        self,
        size: int,  # height and width in pixels
    ) -> None:
        self.size = size
        self._centres: Floats = (((np.arange(size, dtype=np.float32) + 0.5) / size) * 2 - 1).astype(np.float32)

    def pictures(self, count: int, draw: Callable[[slice], Floats]) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB; `draw` returns new canvases of a slice of them."""
        pictures = np.empty((count, self.size, self.size, 3), np.uint8)
        for start in range(0, count, _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, count))
            canvas = draw(part)
            canvas += 0.5
            pictures[part] = canvas
        return pictures

    def blank(self, count: int, colour: Colour) -> Floats:
        """Return canvases ``[N, H, W, 3]`` float32 of one colour."""
        canvas = np.empty((count, self.size, self.size * 3), np.float32)
        canvas[:] = colour * self.size  # a row at a time
        return canvas.reshape(count, self.size, self.size, 3)

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

    def lines(self, canvas: Floats, points: Sequence[Floats], half: float, colour: Colour) -> None:
        """Paint the segments between points that follow each other, ``[N, 2]`` each, 2 `half` wide with round ends."""
        cover = np.zeros(canvas[..., 0].size, np.float32)
        for first, second in pairwise(points):
            thick = np.float32(half)
            x, y, place = self._box(np.minimum(first, second) - thick, np.maximum(first, second) + thick)
            near = self._cover(from_segment(x, y, first, second) - thick)
            inside = near > 0
            place = place[inside]
            cover[place] = np.maximum(cover[place], near[inside])  # the nearest segment covers most
        painted = np.flatnonzero(cover > 0)  # of booleans, which is many times faster than of numbers
        self._blend(canvas, painted, cover[painted], colour)

    def _near(
        self, canvas: Floats, middle: Floats, reach: float, distance: Callable[[Floats, Floats], Floats], colour: Colour
    ) -> None:
        """Paint a shape within `reach` of its middle; other pixels are not touched."""
        x, y, place = self._box(middle - reach, middle + reach)
        cover = self._cover(distance(x - middle[:, 0, None, None], y - middle[:, 1, None, None]))
        inside = cover > 0
        self._blend(canvas, place[inside], cover[inside], colour)

    def _box(self, low: Floats, high: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return the pixels of boxes with corners ``[N, 2]``, and one more on each side; all boxes are of one size.

        Returns:
            x ``[N, 1, C]``, y ``[N, R, 1]``, and the pixels' numbers ``[N, R, C]`` in canvases of ``N H W`` pixels.
        """
        # The first row of a picture is the highest.
        columns = self._span(low[:, 0], high[:, 0])
        rows = self._span(-high[:, 1], -low[:, 1])
        copies = np.arange(len(low))[:, None, None]
        place = (copies * self.size + rows[:, :, None]) * self.size + columns[:, None, :]
        x: Floats = self._centres[columns][:, None, :]
        y: Floats = -self._centres[rows][:, :, None]
        return x, y, place

    def _span(self, low: Floats, high: Floats) -> NDArray[np.int64]:
        """Return the pixels ``[N, C]`` of a side between two places ``[N]``, moved into the picture."""
        first, last = (np.floor((side + 1) / 2 * self.size).astype(np.int64) for side in (low, high))
        count = min(int((last - first).max(initial=0)) + 3, self.size)
        return (first - 1).clip(0, self.size - count)[:, None] + np.arange(count)

    def _cover(self, distance: Floats) -> Floats:
        """Return the share of each pixel that is covered, by its distance from a shape: the edge is one pixel soft."""
        cover: Floats = np.clip(0.5 - distance * (self.size / 2), 0, 1)
        return cover

    def _blend(self, canvas: Floats, place: NDArray[np.int64], cover: Floats, colour: Colour) -> None:
        """Blend a colour over pixels ``[M]`` of canvases, each named once."""
        pixels = canvas.reshape(-1, 3)
        below = pixels.take(place, axis=0)
        pixels[place] = below + cover[:, None] * (np.array(colour, np.float32) - below)


def from_segment(x: Floats, y: Floats, first: Floats, second: Floats) -> Floats:
    """Return the distances ``[N, R, C]`` of x ``[N, 1, C]`` and y ``[N, R, 1]`` to segments between ``[N, 2]``."""
    edge = second - first
    along, up = x - first[:, 0, None, None], y - first[:, 1, None, None]
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
