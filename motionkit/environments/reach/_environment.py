"""The reaching task with a gripper that moves freely: N copies stepped together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from motionkit.environments.base import Floats, Frames, Step
from motionkit.environments.reach._links import elbows
from motionkit.environments.reach._picture import Camera
from motionkit.environments.reach._settings import ReachSettings

CAMERA = "base_camera"
STEP, EDGE = 0.12, 0.75
_APART = 0.3  # smallest distance from the distractor to the goal
_SHOWN = 6


class Reach:
    """N grippers that move freely, ``--env.kind point``; see `motionkit.environments.base.Environment`.

    An action moves the gripper by up to `STEP` along each axis, inside ``[-EDGE, EDGE]^2``; the arm is drawn behind it.
    Nothing but the start of an episode is random. The state vector is the gripper, the goal, and the way from one to
    the other, each ``(x, y)``.

    Args:
        options: Settings.
        num_envs: Copies N.
    """

    state_size = _SHOWN

    def __init__(self, options: ReachSettings, *, num_envs: int = 1) -> None:
        self.options, self.num_envs, self.max_steps = options, num_envs, options.max_steps
        # A spec without a kind is a point's: so are those that were written when there was no other.
        self.spec: Mapping[str, object] = {"name": "reach", **options.model_dump(mode="json", exclude={"kind"})}
        self.cameras = {CAMERA: (options.size, options.size)}
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self._camera = Camera(options.size)
        # [N, 3, 2]: gripper, goal, distractor.
        self._places: Floats = np.zeros((num_envs, 3, 2), np.float32)
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit.environments.base.Environment.reset`."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            self._places[copy] = self._start(seed)
        self._elapsed[copies], self._over[copies] = 0, False

    def _start(self, seed: int) -> Floats:
        draw = np.random.default_rng(seed)
        while True:
            places = draw.uniform(-EDGE, EDGE, (3, 2)).astype(np.float32)
            gripper, goal, distractor = places
            far = np.linalg.norm(gripper - goal) >= self.options.min_distance
            if far and np.linalg.norm(distractor - goal) >= _APART:
                return places

    def states(self) -> Floats:
        """Return ``[N, 6]``: gripper, goal, goal - gripper."""
        gripper, goal = self._places[:, 0], self._places[:, 1]
        return np.concatenate([gripper, goal, goal - gripper], axis=1)

    def frames(self) -> Frames:
        """Return the pictures, ``[N, size, size, 3]`` uint8."""
        distractor = self._places[:, 2] if self.options.distractor else None
        return {CAMERA: self._camera(self._places[:, 0], self._elbows(), self._places[:, 1], distractor)}

    def _elbows(self) -> Floats:
        return elbows(self._places[:, 0])

    def step(self, actions: NDArray[Any]) -> Step:
        """Move the grippers of the episodes that are not over."""
        moving = ~self._over
        self._move(np.asarray(actions, np.float32).clip(-1, 1), moving)
        self._elapsed += moving
        distance = np.linalg.norm(self._places[:, 0] - self._places[:, 1], axis=1)
        success = distance < self.options.radius
        own = success.astype(np.float32) if self.options.reward == "sparse" else -distance
        terminated = success & self.options.terminate_on_success
        truncated = ~terminated & (self._elapsed >= self.max_steps)
        self._over |= terminated | truncated
        return Step(own.astype(np.float32), success, terminated, truncated, ({},) * self.num_envs)

    def _move(self, actions: Floats, moving: NDArray[np.bool_]) -> None:
        """Move the grippers of some copies; `actions` are in [-1, 1]."""
        gripper = (self._places[:, 0] + actions * np.float32(STEP)).clip(-EDGE, EDGE)
        self._places[:, 0] = np.where(moving[:, None], gripper, self._places[:, 0])

    def scripted(self) -> Floats:
        """Return actions straight to the goal."""
        way = self._places[:, 1] - self._places[:, 0]
        return (way / np.float32(STEP)).clip(-1, 1)

    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return everything that changes."""
        return {"places": self._places.copy(), "elapsed": self._elapsed.copy(), "over": self._over.copy()}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Put it back."""
        self._places[:], self._elapsed[:], self._over[:] = state["places"], state["elapsed"], state["over"]

    def close(self) -> None:
        """Nothing is open."""
