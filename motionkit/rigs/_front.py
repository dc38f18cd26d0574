"""Which way a body faces, by its hips and shoulders."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from motionkit.geometry import heading

_FLAT = 1e-3
"""Part of the lines across hips and shoulders along the floor below which they tell nothing: a body on its side."""


def front_of(positions: Tensor, roles: Mapping[str, int]) -> tuple[Tensor, Tensor] | None:
    """Return where a body faces: at right angles to the line from its right hip and shoulder to its left ones.

    Hips and shoulders count alike, however wide they are: shoulders turn with the arms that swing.

    Args:
        positions: ``[T, J, 3]`` metres, Y up.
        roles: Roles to joints (`find_roles`).

    Returns:
        Yaw ``[T]`` in radians, from -pi to pi: 0 is +Z, towards +X it grows; and ``[T]``, True where the line is long
        enough to tell. None when neither hips nor shoulders are known.
    """
    across = None
    for joint in ("hip", "shoulder"):
        left, right = roles.get(f"left {joint}"), roles.get(f"right {joint}")
        if left is not None and right is not None:
            line = torch.nn.functional.normalize(positions[:, left] - positions[:, right], dim=-1)
            across = line if across is None else across + line
    if across is None:
        return None
    forward = torch.stack([-across[:, 2], torch.zeros_like(across[:, 0]), across[:, 0]], dim=-1)
    return heading(forward), forward.norm(dim=-1) >= _FLAT
