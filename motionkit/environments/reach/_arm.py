"""The reaching task with an arm of two joints that have velocities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.environments.base import Floats
from motionkit.environments.reach._environment import Reach
from motionkit.environments.reach._links import joints_of, places_of
from motionkit.environments.reach._settings import ReachSettings

SPEED, CHANGE = 0.16, 0.06
"""Largest speed of a joint, in radians a step, and most that a step changes it by."""

LIMITS = np.array([[-1.2, 0.1], [2.1, 3.0]], np.float32)
"""Lowest and highest joints in radians; every place of the workspace is inside."""


class Arm(Reach):
    """N arms of two joints, ``--env.kind arm``; see `motionkit.environments.base.Environment`.

    An action is a target for the velocity of each joint, as a share of `SPEED`. A step changes the velocity towards it
    by at most `CHANGE` and then moves the joint by it; at its limit a joint stops. The state vector is cosine and sine
    of both joints, their velocities as shares of `SPEED`, and the goal ``(x, y)``: where the gripper is, and which way
    the goal lies from there, is not in it. A picture shows no velocity.

    Args:
        options: Settings.
        num_envs: Copies N.
    """

    state_size = 8

    def __init__(self, options: ReachSettings, *, num_envs: int = 1) -> None:
        super().__init__(options, num_envs=num_envs)
        self.spec = {**self.spec, "kind": "arm"}
        self._joints: Floats = np.zeros((num_envs, 2), np.float32)
        self._speeds: Floats = np.zeros((num_envs, 2), np.float32)

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes at rest, with the gripper where the seed puts it."""
        super().reset(copies, seeds)
        self._joints[copies] = joints_of(self._places[copies, 0])
        self._speeds[copies] = 0

    def states(self) -> Floats:
        """Return ``[N, 8]``: cosines and sines of the joints, velocities, goal."""
        turned = [np.cos(self._joints), np.sin(self._joints)]
        return np.concatenate([*turned, self._speeds / np.float32(SPEED), self._places[:, 1]], axis=1)

    def _elbows(self) -> Floats:
        return places_of(self._joints)[0]

    def _move(self, actions: Floats, moving: NDArray[np.bool_]) -> None:
        wanted = actions * np.float32(SPEED)
        speeds = self._speeds + (wanted - self._speeds).clip(-CHANGE, CHANGE)
        joints = self._joints + speeds
        held = joints.clip(*LIMITS)
        speeds[held != joints] = 0
        self._joints = np.where(moving[:, None], held, self._joints).astype(np.float32)
        self._speeds = np.where(moving[:, None], speeds, self._speeds).astype(np.float32)
        gripper = places_of(self._joints)[1]
        self._places[:, 0] = np.where(moving[:, None], gripper, self._places[:, 0])

    def scripted(self) -> Floats:
        """Return velocities towards the joints that put the gripper on the goal, slow enough to stop there."""
        way = joints_of(self._places[:, 1]) - self._joints
        # The speed from which steps of CHANGE come to rest over this way.
        speed = np.sqrt(2 * CHANGE * np.abs(way) + CHANGE**2 / 4) - CHANGE / 2
        wanted: Floats = np.sign(way) * np.minimum(speed, np.abs(way)) / np.float32(SPEED)
        return wanted.clip(-1, 1).astype(np.float32)

    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return everything that changes."""
        return {**super().get_state(), "joints": self._joints.copy(), "speeds": self._speeds.copy()}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Put it back."""
        super().set_state(state)
        self._joints[:], self._speeds[:] = state["joints"], state["speeds"]


def open_reach(options: ReachSettings, *, num_envs: int = 1) -> Reach:
    """Return the environment of a kind."""
    return (Arm if options.kind == "arm" else Reach)(options, num_envs=num_envs)
