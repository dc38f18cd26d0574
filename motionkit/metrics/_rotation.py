"""Angles between rotations and between directions, in degrees."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def geodesic_degrees(first: Tensor, second: Tensor) -> Tensor:
    """Return the angle of the rotation from one to the other, ``[...]`` in degrees, 0 to 180.

    It is roma's form by the chord, which is exact for small angles; ``acos`` of the trace is 0.08 degrees off there.

    Args:
        first: ``[..., 3, 3]`` rotation matrices.
        second: The same; broadcasts.
    """
    import roma

    angle: Tensor = roma.rotmat_geodesic_distance(first, second)
    return torch.rad2deg(angle)


def yaw_degrees(first: Tensor, second: Tensor) -> Tensor:
    """Return the smallest angle between directions ``[...]`` in radians, in degrees, 0 to 180.

    Example:
        >>> yaw_degrees(torch.tensor(3.1), torch.tensor(-3.1)) < 5
        tensor(True)
    """
    turn = first - second
    return torch.rad2deg((torch.remainder(turn + math.pi, 2 * math.pi) - math.pi).abs())
