"""Which way a body faces, smoothed over time: the frame that features are expressed in."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.motion._skeleton import Skeleton

_SMOOTHING = 20.0
"""Standard deviation, in frames, of the Gaussian that smooths the forward direction."""


def facing(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the smoothed half heading ``[..., T]`` in radians that features are expressed in; 0 at frame 0.

    HumanML3D takes the hips swapped and the shoulders not, so that the hips count against the shoulders; every
    public feature contains this, and so does this function.
    """
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    across = joints[..., left_hip, :] - joints[..., right_hip, :]
    across = across + joints[..., right_shoulder, :] - joints[..., left_shoulder, :]
    half = -0.5 * smooth_heading(*across.unbind(-1))
    return torch.cat([torch.zeros_like(half[..., :1]), half[..., 1:]], dim=-1)


def smooth_heading(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return the yaw ``[..., T]`` of the smoothed forward direction, which is up times the direction (x, y, z)."""
    inverse = (x * x + y * y + z * z).clamp_min(1e-24).rsqrt()
    kernel = _kernel(x.dtype, x.device)
    radius = kernel.shape[-1] // 2
    rows = torch.stack([z * inverse, -x * inverse]).reshape(-1, 1, x.shape[-1])
    padded = functional.pad(rows, (radius, radius), mode="replicate")
    ahead = functional.conv1d(padded, kernel).view(2, *x.shape)
    return torch.atan2(ahead[0], ahead[1])


@lru_cache(maxsize=8)
def _kernel(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a Gaussian cut at four standard deviations, ``[1, 1, taps]``."""
    radius = int(4.0 * _SMOOTHING + 0.5)
    offsets = torch.arange(-radius, radius + 1, dtype=dtype, device=device)
    kernel = torch.exp(-0.5 * (offsets / _SMOOTHING).square())
    return (kernel / kernel.sum())[None, None]
