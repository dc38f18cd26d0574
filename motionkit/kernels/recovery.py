"""HumanML3D-style features to joint positions: the plain-torch definition of the `features_to_joints` kernel.

A feature row starts with the yaw rate (half the turn per frame, radians), the root's velocity (x and z per frame, in
the next frame's heading), the root's height, and the positions of the joints 1..J-1 in the frame's heading with the
root's x and z removed. Heading and path are sums over the frames before; HumanML3D: ``recover_from_ric``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from motionkit.geometry._yaw import rotate_yaw


def columns_in_use(joints: int) -> int:
    """Return the number of leading columns of a feature row that the recovery reads."""
    return 4 + 3 * (joints - 1)


def recover_definition(
    features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, joints: int, unit: float
) -> Tensor:
    """Return joints ``[..., T, J, 3]`` of features ``[..., T, D]``; see `motionkit.kernels.features_to_joints`."""
    used = features[..., : columns_in_use(joints)]
    if mean is not None and std is not None:
        used = upcast(used) * std[: used.shape[-1]] + mean[: used.shape[-1]]
    clean, broken = sanitise(used, lengths)
    angle, root = root_path(clean)
    local = clean[..., 4:].reshape(*clean.shape[:-1], -1, 3)
    # [..., T, J - 1, 3] from each frame's heading into the world, then moved to the root's x and z.
    turned = rotate_yaw(local, angle[..., None])
    zero = torch.zeros_like(root[..., 0])
    ground = torch.stack([root[..., 0], zero, root[..., 2]], dim=-1)
    return finish(torch.cat([root[..., None, :], turned + ground[..., None, :]], dim=-2), broken, unit)


def upcast(tensor: Tensor) -> Tensor:
    """Return `tensor`, in float32 if it was in half precision."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def sanitise(features: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return features with padding and non-finite frames zeroed, and which frames ``[..., T]`` were not finite."""
    features = upcast(features)
    zero = features.new_zeros(())
    if lengths is not None:
        valid = torch.arange(features.shape[-2], device=features.device) < lengths[..., None]
        features = torch.where(valid[..., None], features, zero)
    broken = ~torch.isfinite(features).all(dim=-1)
    return torch.where(broken[..., None], zero, features), broken


def root_path(features: Tensor) -> tuple[Tensor, Tensor]:
    """Integrate yaw rate and velocity: rotation ``[..., T]`` from heading frame to world, root ``[..., T, 3]``."""
    rate = features[..., 0]
    # Exclusive sum over time: the heading of frame t is the sum of the rates before it. HumanML3D stores half angles.
    half = torch.cat([torch.zeros_like(rate[..., :1]), rate[..., :-1].cumsum(dim=-1)], dim=-1)
    angle = -2.0 * half
    x, z = features[..., :-1, 1:3].unbind(-1)
    # The velocity of frame t is given in the heading of frame t + 1.
    step = rotate_yaw(torch.stack([x, torch.zeros_like(x), z], dim=-1), angle[..., 1:])
    # [..., T, 3]: exclusive sum of the steps; frame 0 is at x = z = 0. The height is stored as it is.
    path = torch.cat([torch.zeros_like(features[..., :1, :3]), step.cumsum(dim=-2)], dim=-2)
    return angle, torch.cat([path[..., :1], features[..., 3:4], path[..., 2:]], dim=-1)


def finish(joints: Tensor, broken: Tensor, unit: float) -> Tensor:
    """Scale to metres and mark everything from the first broken frame on, without touching gradients before it."""
    # [..., T]: True from the first broken frame on, because heading and path are sums.
    gone = broken.cummax(dim=-1).values if broken.shape[-1] else broken
    return (joints * unit).masked_fill(gone[..., None, None], math.nan)
