"""The pushing task: N tables stepped together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from motionkit.environments.base import Floats, Frames, Step
from motionkit.environments.push._contact import FINGER, HALF, push
from motionkit.environments.push._picture import TABLE, Camera
from motionkit.environments.push._settings import PushSettings

CAMERA = "base_camera"
STEP, EDGE = 0.2, 0.92
_PARTS = 5  # of a step, so that each is much shorter than the finger
_BLOCK, _GOAL = 0.45, 0.5  # where they begin at most, from the middle of the table along each axis
_APART, _NEAR = 1.5 * HALF + FINGER, 0.5  # distances from the finger to the block at the start


class Push:
    """N tables with a block each; see `motionkit.environments.base.Environment`.

    An action moves a round finger by up to `STEP` along each axis, inside ``[-EDGE, EDGE]^2``. The block moves only
    where the finger pushes it, and stops with it. A block whose middle is beyond the edge of the table has fallen:
    nothing brings it back, and the episode ends. Nothing but the start of an episode is random. The state vector is the
    block, the way from finger to block, the way from block to goal, each ``(x, y)``, and the cosine and sine of four
    times the block's angle, which a quarter of a turn does not change.

    Args:
        options: Settings.
        num_envs: Copies N.
    """

    state_size = 8

    def __init__(self, options: PushSettings, *, num_envs: int = 1) -> None:
        self.options, self.num_envs, self.max_steps = options, num_envs, options.max_steps
        self.spec: Mapping[str, object] = {"name": "push", **options.model_dump(mode="json")}
        self.cameras = {CAMERA: (options.size, options.size)}
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self._camera = Camera(options.size)
        self._finger, self._goal = np.zeros((num_envs, 2)), np.zeros((num_envs, 2))
        self._block = np.zeros((num_envs, 3))
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit.environments.base.Environment.reset`."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            self._finger[copy], self._block[copy], self._goal[copy] = self._start(seed)
        self._elapsed[copies], self._over[copies] = 0, False

    def _start(self, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        draw = np.random.default_rng(seed)
        while True:
            block = draw.uniform(-_BLOCK, _BLOCK, 2)
            far = draw.uniform(self.options.min_distance, self.options.max_distance)
            near = draw.uniform(_APART, _NEAR)
            first, second, angle = draw.uniform(-np.pi, np.pi, 3)
            goal = block + far * np.array([np.cos(first), np.sin(first)])
            finger = block + near * np.array([np.cos(second), np.sin(second)])
            if np.abs(goal).max() <= _GOAL and np.abs(finger).max() <= TABLE:
                return finger, np.append(block, angle), goal

    @property
    def _fallen(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.abs(self._block[:, :2]).max(axis=1) > TABLE
        return found

    def states(self) -> Floats:
        """Return ``[N, 8]``: block, the ways from finger to block and from block to goal, and the block's angle."""
        block, turned = self._block[:, :2], 4 * self._block[:, 2:]
        parts = [block, block - self._finger, self._goal - block, np.cos(turned), np.sin(turned)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def frames(self) -> Frames:
        """Return the pictures, ``[N, size, size, 3]`` uint8."""
        block, finger, goal = (values.astype(np.float32) for values in (self._block, self._finger, self._goal))
        return {CAMERA: self._camera(block, finger, goal, self._fallen)}

    def step(self, actions: NDArray[Any]) -> Step:
        """Move the fingers of the episodes that are not over, and what they push."""
        moving = ~self._over
        end = (self._finger + np.asarray(actions, np.float64).clip(-1, 1) * STEP).clip(-EDGE, EDGE)
        way = np.where(moving[:, None], end - self._finger, 0) / _PARTS
        for _ in range(_PARTS):
            self._block = push(self._block, self._finger, way, self.options.friction, self._fallen | self._over)
            self._finger = self._finger + way
        self._elapsed += moving
        fallen = self._fallen
        distance = np.linalg.norm(self._block[:, :2] - self._goal, axis=1)
        success = (distance < self.options.radius) & ~fallen
        own = success.astype(np.float32) if self.options.reward == "sparse" else -distance
        terminated = fallen | (success & self.options.terminate_on_success)
        truncated = ~terminated & (self._elapsed >= self.max_steps)
        self._over |= terminated | truncated
        return Step(own.astype(np.float32), success, terminated, truncated, ({},) * self.num_envs)

    def scripted(self) -> Floats:
        """Return actions that go round the block until it is between finger and goal, and then push."""
        block = self._block[:, :2]
        left = self._goal - block
        distance = np.linalg.norm(left, axis=1)
        ahead = left / np.maximum(distance, 1e-9)[:, None]
        own = self._finger - block
        far = np.maximum(np.linalg.norm(own, axis=1), 1e-9)
        # Angle of the finger around the block, from the place that is behind it.
        angle = np.arctan2(-ahead[:, 0] * own[:, 1] + ahead[:, 1] * own[:, 0], -(own * ahead).sum(axis=1))
        turned = np.arctan2(own[:, 1], own[:, 0]) - np.clip(angle, -0.35, 0.35)
        orbit = np.maximum(1.5 * HALF + FINGER + 0.02, far - STEP)
        around = block + orbit[:, None] * np.stack([np.cos(turned), np.sin(turned)], axis=1) - self._finger
        aside = own - (own * ahead).sum(axis=1)[:, None] * ahead
        onward = ahead * np.minimum(STEP, far - HALF - FINGER + distance)[:, None] * 0.7 - 1.0 * aside
        wanted = np.where((np.abs(angle) < 0.3)[:, None], onward, around)
        wanted = np.where((distance < self.options.radius / 2)[:, None], 0, wanted)
        return (wanted / STEP).clip(-1, 1).astype(np.float32)

    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return everything that changes."""
        return {
            "finger": self._finger.copy(), "block": self._block.copy(), "goal": self._goal.copy(),
            "elapsed": self._elapsed.copy(), "over": self._over.copy(),
        }  # fmt: skip

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Put it back."""
        self._finger, self._block, self._goal = (
            np.array(state[name], np.float64) for name in ("finger", "block", "goal")
        )
        self._elapsed[:], self._over[:] = state["elapsed"], state["over"]

    def close(self) -> None:
        """Nothing is open."""
