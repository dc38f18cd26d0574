"""Pictures of shapes with soft edges, from signed distances, and the base of the environments that are drawn so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from motionkit_success.environments.base import Floats, Step

CAMERA = "base_camera"
Colour = tuple[int, int, int]

_AT_ONCE = 32  # pictures per pass: their arrays stay in the cache
_MOST_KEPT = 1 << 23  # pixels of canvases that are kept, of which each takes 15 bytes
_SLACK = 1e-3  # pixels

Painted = tuple[NDArray[np.int64], Floats]
"""Numbers of the pixels ``[M]`` that were painted, and what they were before, ``[M, 3]``."""


class Canvas:
    """Draws pictures of the square ``[-1, 1]^2`` with y up."""

    def __init__(
        self,
        size: int,  # height and width in pixels
    ) -> None:
        self.size = size
        self._centres: Floats = (((np.arange(size, dtype=np.float32) + 0.5) / size) * 2 - 1).astype(np.float32)
        self._covers: Floats = np.zeros(0, np.float32)  # 0 between calls: new ones would cost more than what is drawn
        # What stands still: what it depends on [N, K], canvases [N, H, W, 3] and pictures of them.
        self._keys, self._still = np.zeros((0, 0), np.float32), np.zeros((0, size, size, 3), np.float32)
        self._shown = np.zeros((0, size, size, 3), np.uint8)

    def pictures(self, count: int, draw: Callable[[slice], Floats]) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB; `draw` returns new canvases of a slice of them."""
        pictures = np.empty((count, self.size, self.size, 3), np.uint8)
        for start in range(0, count, _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, count))
            pictures[part] = draw(part) + np.float32(0.5)
        return pictures

    def pictures_over(
        self,
        keys: Floats,  # [N, K] what `still` depends on
        still: Callable[[NDArray[np.int64]], Floats],  # returns new canvases of some copies, without what moves
        paint: Callable[[Floats, slice], Sequence[Painted]],  # paints what moves over canvases of a slice of the copies
    ) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB of scenes that stand still but for some shapes.

        What stands still is drawn where its key has changed since the last call, and the rest is painted over it and
        taken off again: the values are those of `pictures`.
        """
        count = len(keys)
        if count * self.size**2 > _MOST_KEPT:
            every = np.arange(count)

            def draw(part: slice) -> Floats:
                canvas = still(every[part])
                paint(canvas, part)
                return canvas

            return self.pictures(count, draw)
        self._keep(keys, still)
        pictures = self._shown.copy()
        for start in range(0, count, _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, count))
            canvas, seen = self._still[part].reshape(-1, 3), pictures[part].reshape(-1, 3)
            painted = paint(self._still[part], part)
            for place, _ in painted:
                _put(seen, place, (canvas.take(place, axis=0) + np.float32(0.5)).astype(np.uint8))
            for place, before in reversed(painted):
                _put(canvas, place, before)
        return pictures

    def _keep(self, keys: Floats, still: Callable[[NDArray[np.int64]], Floats]) -> None:
        """Draw what stands still where it has changed."""
        if keys.shape != self._keys.shape:
            shape = len(keys), self.size, self.size, 3
            self._still, self._shown = np.empty(shape, np.float32), np.empty(shape, np.uint8)
            changed = np.arange(len(keys))
        else:
            changed = np.flatnonzero((keys != self._keys).any(axis=1))
        for start in range(0, len(changed), _AT_ONCE):
            some = changed[start : start + _AT_ONCE]
            self._still[some] = canvas = still(some)
            self._shown[some] = canvas + np.float32(0.5)
        self._keys = keys.copy()

    def blank(self, count: int, colour: Colour) -> Floats:
        """Return canvases ``[N, H, W, 3]`` float32 of one colour."""
        canvas = np.empty((count, self.size, self.size * 3), np.float32)
        canvas[:] = colour * self.size  # a row at a time
        return canvas.reshape(count, self.size, self.size, 3)

    def disc(self, canvas: Floats, middle: Floats, radius: float, colour: Colour) -> Painted:
        """Paint discs around ``[N, 2]``."""

        def distance(x: Floats, y: Floats) -> Floats:
            signed: Floats = np.sqrt(x * x + y * y) - np.float32(radius)
            return signed

        return self._near(canvas, middle, radius, distance, colour)

    def square(self, canvas: Floats, middle: Floats, angle: Floats, half: float, colour: Colour) -> Painted:
        """Paint squares of side 2 `half` around ``[N, 2]``, turned by ``[N]`` radians counterclockwise."""
        cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]

        def distance(x: Floats, y: Floats) -> Floats:
            across = np.abs(cos * x + sin * y) - np.float32(half)
            along = np.abs(cos * y - sin * x) - np.float32(half)
            outside = np.sqrt(np.maximum(across, 0) ** 2 + np.maximum(along, 0) ** 2)
            signed: Floats = outside + np.minimum(np.maximum(across, along), 0)
            return signed

        return self._near(canvas, middle, half * 2**0.5, distance, colour)

    def lines(self, canvas: Floats, points: Sequence[Floats], half: float, colour: Colour) -> Painted:
        """Paint the segments between points that follow each other, ``[N, 2]`` each, 2 `half` wide with round ends."""
        if len(self._covers) < canvas[..., 0].size:
            self._covers = np.zeros(canvas[..., 0].size, np.float32)
        count, covers, places = len(canvas), self._covers, []
        # All first segments, all second ones, and so on.
        near, place = self._segments(np.concatenate(points[:-1]), np.concatenate(points[1:]), half, count)
        inside = near > 0
        for start in range(0, len(near), count):
            part = slice(start, start + count)
            pixels = place[part][inside[part]]
            before = covers[pixels]
            covers[pixels] = np.maximum(before, near[part][inside[part]])  # the nearest segment covers most
            places.append(pixels[before == 0])
        painted = np.concatenate(places)
        cover = covers[painted]
        covers[painted] = 0
        return self._blend(canvas, painted, cover, colour)

    def _segments(self, first: Floats, second: Floats, half: float, count: int) -> tuple[Floats, NDArray[np.int64]]:
        """Return how much segments, 2 `half` wide, cover of the pixels near them, and the pixels' numbers.

        Args:
            first: ``[M, 2]`` where they begin.
            second: ``[M, 2]`` where they end.
            half: Half of their width.
            count: Copies N; segment i is of copy i modulo N.

        Returns:
            Two ``[M, L, W]``: of each row that a segment crosses, or each column if it is rather flat, W pixels.
        """
        # Along it comes first, which is y for the steep ones. A distance does not depend on the order.
        steep = np.abs(second[:, 1] - first[:, 1]) > np.abs(second[:, 0] - first[:, 0])
        ends = np.stack([first, second], axis=1)
        ends = np.where(steep[:, None, None], ends[..., ::-1], ends)
        way = np.where(steep, -1, 1).astype(np.float32)  # rows are counted down, against y
        scaled = ends * np.stack([way, -way], axis=1)[:, None] * (self.size / 2) + self.size / 2  # in pixels
        edge = scaled[:, 1] - scaled[:, 0]
        reach = half * self.size / 2 + 0.5 + _SLACK  # a pixel has cover up to here
        along = self._window(scaled[..., 0].min(axis=1) - reach, float(np.abs(edge[:, 0]).max(initial=0)) + 2 * reach)
        slope = edge[:, 1] / np.where(edge[:, 0] == 0, 1, edge[:, 0])  # -1 to 1, where a line is up to 2**0.5 as wide
        middle = scaled[:, :1, 1] + slope[:, None] * (along + np.float32(0.5) - scaled[:, :1, 0])
        across = self._window(middle - reach * 2**0.5, 2 * reach * 2**0.5)
        x = (self._centres[along] * way[:, None])[:, :, None]
        y = self._centres.take(across) * -way[:, None, None]
        near = self._cover(from_segment(x, y, ends[:, 0], ends[:, 1]) - np.float32(half))
        steps = np.where(steep[:, None], (self.size, 1), (1, self.size))
        begin = (np.arange(len(first)) % count * self.size**2)[:, None] + along * steps[:, :1]
        return near, begin[:, :, None] + across * steps[:, 1:, None]

    def _window(self, low: NDArray[Any], width: float) -> NDArray[np.int64]:
        """Return the pixels ``[..., W]`` with their middles up to `width` above places ``[...]``, in the picture."""
        count = min(int(width) + 2, self.size)
        begin: NDArray[np.int64] = np.floor(low - 0.5).astype(np.int64).clip(0, self.size - count)
        return begin[..., None] + np.arange(count)

    def _near(
        self, canvas: Floats, middle: Floats, reach: float, distance: Callable[[Floats, Floats], Floats], colour: Colour
    ) -> Painted:
        """Paint a shape within `reach` of its middle; other pixels are not touched."""
        x, y, place = self._box(middle - reach, middle + reach)
        cover = self._cover(distance(x - middle[:, 0, None, None], y - middle[:, 1, None, None]))
        inside = cover > 0
        return self._blend(canvas, place[inside], cover[inside], colour)

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

    def _blend(self, canvas: Floats, place: NDArray[np.int64], cover: Floats, colour: Colour) -> Painted:
        """Blend a colour over pixels ``[M]`` of canvases, each named once."""
        pixels = canvas.reshape(-1, 3)
        below = pixels.take(place, axis=0)
        _put(pixels, place, below + cover[:, None] * (np.array(colour, np.float32) - below))
        return place, below


def _put(pixels: NDArray[Any], place: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Put rows of three numbers, ``[M, 3]`` of the same type, into some of ``[P, 3]``."""
    row = np.dtype((np.void, 3 * pixels.itemsize))  # a row as one item is twice as fast
    pixels.view(row)[place, 0] = values.view(row)[:, 0]


def from_segment(x: Floats, y: Floats, first: Floats, second: Floats) -> Floats:
    """Return the distances ``[N, R, C]`` of x and y, of that shape, to segments between ``[N, 2]``."""
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
