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
    turned = x * cos + z * sin
    return torch.stack([turned, y.expand_as(turned), z * cos - x * sin], dim=-1)


def yaw_matrix(angle: Tensor) -> Tensor:
    """Return the matrices ``[..., 3, 3]`` of turns by `angle` (``[...]``, radians) about +Y."""
    cos, sin = torch.cos(angle), torch.sin(angle)
    zero, one = torch.zeros_like(cos), torch.ones_like(cos)
    rows = [torch.stack(row, dim=-1) for row in ((cos, zero, sin), (zero, one, zero), (-sin, zero, cos))]
    return torch.stack(rows, dim=-2)


def heading(forward: Tensor) -> Tensor:
    """Return the yaw ``[...]`` in (-pi, pi] of forward directions ``[..., 3]``; +Z is 0, +X is pi/2.

    Example:
        >>> heading(torch.tensor([[0.0, 0, 1], [1, 0, 0]]))
        tensor([0.0000, 1.5708])
    """
    return torch.atan2(forward[..., 0], forward[..., 2])


def unwrap(angles: Tensor) -> Tensor:
    """Return angles ``[T]`` in radians without the steps of whole turns; the first stays as it is."""
    steps = angles.diff()
    turns = (steps / (2 * torch.pi)).round() * (2 * torch.pi)
    return angles - torch.nn.functional.pad(turns.cumsum(0), (1, 0))
