"""How far motions sink into the floor or hover above it."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = 0.005
"""Metres within which a body counts as standing on the floor, as in Yuan et al., "PhysDiff" (ICCV 2023)."""


def floor_distance(joints: Tensor, lengths: Tensor, *, tolerance: float = TOLERANCE) -> tuple[Tensor, Tensor]:
    """Return how far the lowest joint is below the floor (penetration) and above it (float), mean over frames.

    PhysDiff measures the lowest vertex of a body mesh; features hold joints only, whose lowest one is put on the floor
    when a clip is processed, so that real clips have a little of both.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up, floor at 0.
        lengths: ``[N]`` int64 frames.
        tolerance: Metres; only what is further away counts, whole.

    Returns:
        ``[N]`` metres below and ``[N]`` metres above, both at least 0.

    Example:
        >>> below, above = floor_distance(torch.tensor([[[[0.0, -0.1, 0.0]], [[0.0, 0.3, 0.0]]]]), torch.tensor([2]))
        >>> round(float(below), 4), round(float(above), 4)
        (0.05, 0.15)
    """
    lowest = joints[..., 1].amin(-1)  # [N, T]
    valid = torch.arange(joints.shape[1], device=joints.device) < lengths[:, None]
    count = valid.sum(1).clamp(min=1)

    def mean(distance: Tensor) -> Tensor:
        return torch.where(valid & (distance > tolerance), distance, distance.new_zeros(())).sum(1) / count

    return mean(-lowest), mean(lowest)
