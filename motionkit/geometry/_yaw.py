"""Rotations about the vertical (+Y) axis, the only ones that a body's heading has."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate_yaw(vectors: Tensor, angle: Tensor) -> Tensor:
    """Rotate vectors about +Y by `angle` radians; +Z turns towards +X.

    Args:
        vectors: ``[..., 3]``.
        angle: Broadcasts with ``vectors[..., 0]``.

    Returns:
        ``[..., 3]``.
    """
    x, y, z = vectors.unbind(-1)
    cos, sin = torch.cos(angle), torch.sin(angle)
    return torch.stack(torch.broadcast_tensors(x * cos + z * sin, y, z * cos - x * sin), dim=-1)


def yaw_matrix(angle: Tensor) -> Tensor:
    """Return the matrices ``[..., 3, 3]`` of turns by `angle` (``[...]``, radians) about +Y."""
    cos, sin = torch.cos(angle), torch.sin(angle)
    zero, one = torch.zeros_like(cos), torch.ones_like(cos)
    return torch.stack([cos, zero, sin, zero, one, zero, -sin, zero, cos], dim=-1).unflatten(-1, (3, 3))


def heading(forward: Tensor) -> Tensor:
    """Return the yaw ``[...]`` in (-pi, pi] of forward directions ``[..., 3]``; +Z is 0, +X is pi/2."""
    return torch.atan2(forward[..., 0], forward[..., 2])
