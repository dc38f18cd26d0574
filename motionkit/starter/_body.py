"""The starter's body: 22 joints with the limb lengths of the HumanML3D target skeleton, in a relaxed standing pose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PARENTS: tuple[int, ...] = (-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19)
"""Parent of each joint, HumanML3D order (pelvis, left hip, right hip, spine1, ...)."""

LENGTHS: tuple[float, ...] = (
    0.0,
    0.10307,
    0.10988,
    0.13157,
    0.39362,
    0.39019,
    0.14319,
    0.43243,
    0.42564,
    0.05736,
    0.14338,
    0.14942,
    0.21936,
    0.13749,
    0.14338,
    0.10304,
    0.13161,
    0.12298,
    0.25684,
    0.26309,
    0.26601,
    0.26988,
)
"""Bone lengths in metres: the HumanML3D target skeleton."""

_DIRECTIONS = (
    (0, 0, 0),
    (0.62, -0.78, 0),
    (-0.62, -0.78, 0),
    (0, 1, -0.12),
    (0, -1, 0),
    (0, -1, 0),
    (0, 1, 0.02),
    (0, -1, 0),
    (0, -1, 0),
    (0, 1, 0.15),
    (0, -0.4, 0.9),
    (0, -0.4, 0.9),
    (0, 1, -0.1),
    (0.57, 0.8, -0.15),
    (-0.57, 0.8, -0.15),
    (0, 0.87, 0.45),
    (0.97, 0.16, -0.06),
    (-0.97, 0.16, -0.06),
    (0, -1, 0),
    (0, -1, 0),
    (0, -1, 0),
    (0, -1, 0),
)

LEFT, RIGHT = 0, 1
HIP, KNEE, ANKLE, TOE = (1, 2), (4, 5), (7, 8), (10, 11)
COLLAR, SHOULDER, ELBOW, WRIST = (13, 14), (16, 17), (18, 19), (20, 21)


def _offsets() -> Array:
    direction = np.asarray(_DIRECTIONS, dtype=np.float64)
    norm = np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-9)
    return np.asarray(direction / norm * np.asarray(LENGTHS)[:, None])


OFFSETS: Array = _offsets()
"""``[22, 3]`` offset of each joint from its parent when every rotation is the identity (standing, arms hanging)."""

ANKLE_HEIGHT = float(-OFFSETS[10, 1])
LEG = float(LENGTHS[4] + LENGTHS[7])
ARM = float(LENGTHS[18] + LENGTHS[20])
STAND = 0.985 * LEG + ANKLE_HEIGHT - float(OFFSETS[1, 1])
"""Height of the pelvis in metres when standing with barely bent knees."""
