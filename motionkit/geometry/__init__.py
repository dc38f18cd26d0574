"""Rotations, headings and kinematic trees, all batched and differentiable."""

from motionkit.geometry._kinematics import (
    accumulate_rotations,
    ancestors,
    bones_from_positions,
    positions_from_bones,
    rotations_above,
)
from motionkit.geometry._rotations import (
    matrix_from_6d,
    matrix_from_quaternion,
    matrix_to_6d,
    matrix_to_quaternion,
    rotation_between,
)
from motionkit.geometry._yaw import heading, rotate_yaw, unwrap, yaw_matrix

__all__ = [
    "accumulate_rotations",
    "ancestors",
    "bones_from_positions",
    "heading",
    "matrix_from_6d",
    "matrix_from_quaternion",
    "matrix_to_6d",
    "matrix_to_quaternion",
    "positions_from_bones",
    "rotate_yaw",
    "rotation_between",
    "rotations_above",
    "unwrap",
    "yaw_matrix",
]
