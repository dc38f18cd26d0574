"""Which way a body faces, by its hips and shoulders."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from motionkit.geometry._yaw import heading, unwrap
from motionkit.motion._motion import JointMotion, Motion
from motionkit.rigs._roles import find_roles

_FLAT = 1e-3
"""Horizontal length of the summed unit lines below which a body lies on its side and its front is not known."""


def body_yaw(motion: Motion | JointMotion, positions: Tensor | None = None) -> Tensor | None:
    """Return the yaw of a body over time.

    Hips and shoulders decide (`front_of`). Where they do not tell, it is the turn of the root joint from its rest
    pose about the vertical axis.

    Args:
        motion: The motion.
        positions: ``[T, J, 3]`` metres, when they are known already.

    Returns:
        ``[T]`` radians without jumps of a full turn: 0 is +Z, it grows towards +X. None for joints without rotations
        whose names tell neither hips nor shoulders.
    """
    yaw = None
    if isinstance(motion, Motion):
        root = motion.rotations[:, 0]
        # The turn about Y closest to R: tan(yaw) = (R_xz - R_zx) / (R_xx + R_zz).
        yaw = torch.atan2(root[:, 0, 2] - root[:, 2, 0], root[:, 0, 0] + root[:, 2, 2])
    positions = motion.positions() if positions is None else positions
    if front := front_of(positions, find_roles(motion.names, motion.parents)):
        yaw = front[0] if yaw is None else torch.where(front[1], front[0], yaw)
    return None if yaw is None else unwrap(yaw)


def front_of(positions: Tensor, roles: Mapping[str, int]) -> tuple[Tensor, Tensor] | None:
    """Return where a body faces: at right angles to the line from its right hip and shoulder to its left ones.

    Hips and shoulders count alike, however wide they are: shoulders turn with the arms that swing.

    Args:
        positions: ``[T, J, 3]`` metres, Y up.
        roles: Roles to joints (`find_roles`).

    Returns:
        Yaw ``[T]`` in radians, from -pi to pi: 0 is +Z, it grows towards +X; and ``[T]``, False where the body lies
        on its side. None when neither hips nor shoulders are known.
    """
    across = None
    for joint in ("hip", "shoulder"):
        left, right = roles.get(f"left {joint}"), roles.get(f"right {joint}")
        if left is not None and right is not None:
            line = torch.nn.functional.normalize(positions[:, left] - positions[:, right], dim=-1)
            across = line if across is None else across + line
    if across is None:
        return None
    # forward = across x up = (-across_z, 0, across_x)
    forward = torch.stack([-across[:, 2], torch.zeros_like(across[:, 0]), across[:, 0]], dim=-1)
    return heading(forward), forward.norm(dim=-1) >= _FLAT
