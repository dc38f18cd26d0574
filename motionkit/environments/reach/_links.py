"""The two links of the arm: where its elbow and gripper are, and the joints that put the gripper somewhere."""

from __future__ import annotations

import numpy as np

from motionkit.environments.base import Floats

BASE = (0.0, -0.95)
"""Where the arm is mounted, in [-1, 1]^2 with y up."""

LINK = 0.95
"""Length of each of the two links: they reach every corner of the workspace."""


def elbows(gripper: Floats) -> Floats:
    """Return the elbow ``[N, 2]`` of an arm whose gripper is at ``[N, 2]``, bent to the right: inverse kinematics."""
    reach = gripper - np.array(BASE, np.float32)
    half = reach / 2
    length = np.linalg.norm(reach, axis=1, keepdims=True)
    height = np.sqrt(np.maximum(LINK * LINK - (length / 2) ** 2, 0))
    side = np.stack([reach[:, 1], -reach[:, 0]], axis=1) / np.maximum(length, 1e-9)
    found: Floats = (np.array(BASE, np.float32) + half + height * side).astype(np.float32)
    return found


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
