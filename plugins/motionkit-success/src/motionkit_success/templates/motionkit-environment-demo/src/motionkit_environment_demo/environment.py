"""Environment 'demo': the heavy half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from motionkit_environment_demo import Options
from motionkit_success.environments.base import Flags, Floats, Frames, Step

CAMERA = "camera"
NEAR = 0.2


class DemoEnvironment:
    """An example to replace: N dots in [-1, 1], each to be pushed to its mark.

    See motionkit_success.environments.base.
    """

    def __init__(self, options: Options, *, num_envs: int = 1) -> None:
        self.options, self.num_envs, self.max_steps = options, num_envs, options.max_steps
        self.spec: Mapping[str, object] = {"name": "demo", **options.model_dump(mode="json")}
        self.cameras = {CAMERA: (options.size, options.size)}
        self.state_size = 2
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self._places: Floats = np.zeros((num_envs, 2), np.float32)  # [N, 2]: the dot, its mark
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over: Flags = np.ones(num_envs, np.bool_)

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes: a seed is a start, whatever the copy."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            self._places[copy] = np.random.default_rng(seed).uniform(-0.9, 0.9, 2)
        self._elapsed[copies], self._over[copies] = 0, False

    def states(self) -> Floats:
        """Return ``[N, 2]``: the dot and its mark."""
        return self._places.copy()

    def frames(self) -> Frames:
        """Return pictures ``[N, size, size, 3]`` uint8: the dot is white, its mark a green column."""
        size = self.options.size
        columns = ((self._places + 1) / 2 * (size - 1)).astype(np.int64)
        pictures = np.zeros((self.num_envs, size, size, 3), np.uint8)
        each = np.arange(self.num_envs)
        pictures[each, :, columns[:, 1]] = (0, 200, 0)
        pictures[each, size // 2, columns[:, 0]] = 255
        return {CAMERA: pictures}

    def step(self, actions: NDArray[Any]) -> Step:
        """Push the dots of the episodes that are not over; success is what the state after the step is."""
        pushed = np.asarray(actions, np.float32).clip(-1, 1)[:, 0] * np.float32(0.1)
        running = ~self._over
        self._places[:, 0] += np.where(running, pushed, 0)
        self._elapsed += running
        success = np.abs(self._places[:, 0] - self._places[:, 1]) < NEAR
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = self._elapsed >= self.max_steps
        self._over |= truncated
        return Step(success.astype(np.float32), success, terminated, truncated, ({},) * self.num_envs)

    def scripted(self) -> Floats:
        """Return actions that lead to the mark, for --policy scripted; an environment may leave this out."""
        return ((self._places[:, 1:] - self._places[:, :1]) / np.float32(0.1)).clip(-1, 1)

    def close(self) -> None:
        """Nothing is open."""
