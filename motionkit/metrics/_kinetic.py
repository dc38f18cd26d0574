"""Kinetic features: how fast the joints of a motion go, in three numbers each."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.metrics._distribution import FrechetReference

_LEAST = 1e-6


def kinetic_features(joints: Tensor, lengths: Tensor, fps: float) -> Tensor:
    """Return the kinetic features of motions, per joint: kinetic energy along the ground and upwards, and expenditure.

    The mean over frames of ``vx^2 + vz^2`` (m^2/s^2), of ``vy^2`` (m^2/s^2), and of the length of the acceleration
    (m/s^2), which stands for the energy that a body spends: Onuma et al., "FMDistance" (Eurographics 2008), the
    features of FID_k in Li et al., "AI Choreographer" (ICCV 2021). Velocities and accelerations are central
    differences of the joints in the world; other code averages velocities over more frames, so figures compare with
    each other only.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up; frames past a length may hold anything.
        lengths: ``[N]`` int64 frames.
        fps: Frames per second.

    Returns:
        ``[N, 3 J]``: the first energy of all joints, then the second, then the expenditure; NaN with fewer than 3
        frames.

    Example:
        >>> still = torch.zeros(1, 5, 1, 3)
        >>> falls = torch.stack([0 * torch.arange(5.0), -torch.arange(5.0), 0 * torch.arange(5.0)], dim=-1)
        >>> kinetic_features(still + falls[None, :, None], torch.tensor([5]), fps=1.0)
        tensor([[0., 1., 0.]])
    """
    velocity = (joints[:, 2:] - joints[:, :-2]) * (fps / 2)  # [N, T - 2, J, 3]
    acceleration = (joints[:, 2:] - 2 * joints[:, 1:-1] + joints[:, :-2]) * fps**2
    valid = torch.arange(2, joints.shape[1], device=joints.device) < lengths[:, None]
    count = valid.sum(1, keepdim=True)
    terms = torch.cat(
        [velocity[..., [0, 2]].square().sum(-1), velocity[..., 1].square(), acceleration.norm(dim=-1)], dim=-1
    )  # [N, T - 2, 3 J]
    total = torch.where(valid[..., None], terms, 0.0).sum(1)
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan)


class KineticReference:
    """Real motions that kinetic features of others are compared with, each divided by its standard deviation over them.

    Undivided, the accelerations of the hands would be nearly all of the distance.

    Args:
        real: ``[M, F]`` `kinetic_features` of real motions.
    """

    def __init__(self, real: Tensor) -> None:
        self._scale = real.double().std(0).clamp(min=_LEAST)
        self._reference = FrechetReference(real.double() / self._scale)

    def distance(self, made: Tensor) -> float:
        """Return the Frechet distance of ``[N, F]`` features, at least 0; biased upwards where N or M is near F."""
        return self._reference.distance(made.double() / self._scale)


def kinetic_fid(made: Tensor, real: Tensor) -> float:
    """Return the Frechet distance of kinetic features; see `KineticReference`.

    Args:
        made: ``[N, F]`` `kinetic_features`.
        real: ``[M, F]`` those of real motions.
    """
    return KineticReference(real).distance(made)
