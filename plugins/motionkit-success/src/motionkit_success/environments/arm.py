"""The reaching task: an arm of two joints with its kinematics, or a gripper that moves freely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit_success.environments.base import Floats, Frames, Step
from motionkit_success.environments.canvas import CAMERA, Canvas, Drawn, Painted
from motionkit_success.environments.tasks import ReachSettings

BASE = (0.0, -0.95)
"""Position of the arm's base, in [-1, 1]^2 with y up."""

LINK = 0.95
"""Length of each of the two links: they reach every corner of the workspace."""

STEP, EDGE = 0.12, 0.75
"""Largest move of the gripper along each axis in a step, and how far the workspace reaches on each side."""

SPEED, CHANGE = 0.16, 0.06
"""Largest speed of a joint, in radians a step, and most that a step changes it by."""

LIMITS = np.array([[-1.2, 0.1], [2.1, 3.0]], np.float32)
"""Lowest and highest joints in radians; every place of the workspace is inside."""

_APART = 0.3  # smallest distance from the distractor to the goal

_BACKGROUND = (30, 32, 40)
_GREEN, _RED, _GREY, _YELLOW = (60, 190, 80), (205, 60, 55), (150, 152, 160), (240, 205, 60)
_DISC, _THICKNESS, _GRIPPER = 0.12, 0.045, 0.07


class Reach(Drawn):
    """N grippers that move freely, ``--env.kind point``; see `motionkit_success.environments.base.Environment`.

    An action moves the gripper by up to `STEP` along each axis, inside ``[-EDGE, EDGE]^2``; the arm is drawn behind it.
    The state vector is the gripper, the goal, and the vector from one to the other, each ``(x, y)``.
    """

    state_size = 6

    def __init__(self, options: ReachSettings, *, num_envs: int = 1) -> None:
        super().__init__(options, num_envs)
        # A spec without a kind is of a point, as in recordings from before there were arms.
        self.spec: Mapping[str, object] = {"name": "reach", **options.model_dump(mode="json", exclude={"kind"})}
        self._camera = Camera(options.size)
        # [N, 3, 2]: gripper, goal, distractor.
        self._places: Floats = np.zeros((num_envs, 3, 2), np.float32)

    def _begin(self, copy: int, seed: int) -> None:
        draw = np.random.default_rng(seed)
        while True:
            self._places[copy] = places = draw.uniform(-EDGE, EDGE, (3, 2)).astype(np.float32)
            gripper, goal, distractor = places
            far = np.linalg.norm(gripper - goal) >= self.options.min_distance
            if far and np.linalg.norm(distractor - goal) >= _APART:
                return

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
        self._move(np.asarray(actions, np.float32).clip(-1, 1), ~self._over)
        return self._stepped(np.linalg.norm(self._places[:, 0] - self._places[:, 1], axis=1))

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


class Arm(Reach):
    """N arms of two joints, ``--env.kind arm``; see `motionkit_success.environments.base.Environment`.

    An action is a target for the velocity of each joint, as a share of `SPEED`. A step changes the velocity towards it
    by at most `CHANGE` and then moves the joint by it; at its limit a joint stops. The state vector is cosine and sine
    of both joints, their velocities as shares of `SPEED`, and the goal ``(x, y)``; it has neither the gripper nor the
    direction from it to the goal. A picture shows no velocity.
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
        target = actions * np.float32(SPEED)
        speeds = self._speeds + (target - self._speeds).clip(-CHANGE, CHANGE)
        joints = self._joints + speeds
        limited = joints.clip(*LIMITS)
        speeds[limited != joints] = 0
        self._joints = np.where(moving[:, None], limited, self._joints).astype(np.float32)
        self._speeds = np.where(moving[:, None], speeds, self._speeds).astype(np.float32)
        gripper = places_of(self._joints)[1]
        self._places[:, 0] = np.where(moving[:, None], gripper, self._places[:, 0])

    def scripted(self) -> Floats:
        """Return velocities towards the joints that put the gripper on the goal, slow enough to stop there."""
        way = joints_of(self._places[:, 1]) - self._joints
        # The speed from which steps of CHANGE come to rest over this way.
        speed = np.sqrt(2 * CHANGE * np.abs(way) + CHANGE**2 / 4) - CHANGE / 2
        velocities: Floats = np.sign(way) * np.minimum(speed, np.abs(way)) / np.float32(SPEED)
        return velocities.clip(-1, 1).astype(np.float32)

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


def elbows(gripper: Floats) -> Floats:
    """Return the elbow ``[N, 2]`` of an arm whose gripper is at ``[N, 2]``, bent to the right: inverse kinematics."""
    reach = gripper - np.array(BASE, np.float32)
    half = reach / 2
    length = np.linalg.norm(reach, axis=1, keepdims=True)
    height = np.sqrt(np.maximum(LINK * LINK - (length / 2) ** 2, 0))
    side = np.stack([reach[:, 1], -reach[:, 0]], axis=1) / np.maximum(length, 1e-9)
    elbow: Floats = (np.array(BASE, np.float32) + half + height * side).astype(np.float32)
    return elbow


def joints_of(gripper: Floats) -> Floats:
    """Return the joints ``[N, 2]`` in radians of an arm whose gripper is at ``[N, 2]``, bent to the right.

    The first is the angle of the upper link to the x axis, the second the angle from the upper to the lower link.
    """
    reach = (gripper - np.array(BASE, np.float32)).astype(np.float64)
    bend = np.arccos(np.clip(np.linalg.norm(reach, axis=1) / (2 * LINK), 0, 1))
    return np.stack([np.arctan2(reach[:, 1], reach[:, 0]) - bend, 2 * bend], axis=1).astype(np.float32)


def places_of(joints: Floats) -> tuple[Floats, Floats]:
    """Return elbow and gripper, ``[N, 2]`` each, of joints ``[N, 2]``: forward kinematics."""
    base, both = np.array(BASE, np.float32), joints[:, 0] + joints[:, 1]
    elbow = base + LINK * np.stack([np.cos(joints[:, 0]), np.sin(joints[:, 0])], axis=1)
    gripper = elbow + LINK * np.stack([np.cos(both), np.sin(both)], axis=1)
    return elbow.astype(np.float32), gripper.astype(np.float32)


class Camera:
    """Draws the arm from above, `size` pixels wide and high."""

    def __init__(self, size: int) -> None:
        self._canvas = Canvas(size)

    def __call__(self, gripper: Floats, elbow: Floats, goal: Floats, distractor: Floats | None) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB of positions ``[N, 2]``."""
        shapes, base = self._canvas, np.broadcast_to(np.array(BASE, np.float32), gripper.shape)

        def still(some: NDArray[np.int64]) -> Floats:
            canvas = shapes.blank(len(some), _BACKGROUND)
            if distractor is not None:
                shapes.disc(canvas, distractor[some], _DISC, _RED)
            shapes.disc(canvas, goal[some], _DISC, _GREEN)
            return canvas

        def paint(canvas: Floats, part: slice) -> Sequence[Painted]:
            # From the bottom to the top: the arm hides what is below it.
            arm = shapes.lines(canvas, (base[part], elbow[part], gripper[part]), _THICKNESS, _GREY)
            return arm, shapes.disc(canvas, gripper[part], _GRIPPER, _YELLOW)

        keys = goal if distractor is None else np.concatenate([goal, distractor], axis=1)
        return shapes.pictures_over(keys, still, paint)
