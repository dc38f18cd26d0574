"""Losses of rotations, per frame: ``[N, F]``, in radians unless it says otherwise."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.trainers.train_mpl.losses._frames import Frames, Skeleton

_TINY = 1e-14


def angle(first: Tensor, second: Tensor) -> Tensor:
    """Return the angle between rotations ``[..., 3, 3]``, ``[...]`` radians.

    By the chord, ``2 asin(|A - B| / sqrt(8))``: exact for small angles, where the arc cosine of the trace has neither
    digits nor a gradient. Between equal rotations the gradient is 0, between opposite ones it is finite.
    """
    squared = (first - second).square().sum((-1, -2)) / 8
    apart = squared > _TINY
    chord = torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)
    return 2 * torch.asin(chord.clamp_max(1 - 1e-7))


def rot_geo(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle of every joint's rotation, the root's included; mean over joints."""
    return angle(frames.predicted.state.rotations, frames.truth.rotations).mean(-1)


def rot_local(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle of every joint's rotation relative to its parent, without the root; mean over joints."""
    return angle(frames.predicted.state.rotations[:, :, 1:], frames.truth.rotations[:, :, 1:]).mean(-1)


def rot_root(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle of the root's rotation relative to the heading."""
    return angle(frames.predicted.state.rotations[:, :, 0], frames.truth.rotations[:, :, 0])


def rot_delta(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle between the predicted turn since the frame before and the true one; mean over joints."""
    return angle(frames.predicted.turn, frames.true_turn).mean(-1)


def rot_delta_root(frames: Frames, skeleton: Skeleton) -> Tensor:
    """The same of the root alone."""
    return angle(frames.predicted.turn[:, :, 0], frames.true_turn[:, :, 0])


def rot_log(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Smooth L1 between the rotation vectors of both turns, in radians per frame; mean over joints and axes."""
    import roma

    said, true = (roma.rotmat_to_rotvec(turn) for turn in (frames.predicted.turn, frames.true_turn))
    return F.smooth_l1_loss(said, true, reduction="none", beta=0.1).mean((-1, -2))


def rot_ortho(frames: Frames, skeleton: Skeleton) -> Tensor:
    """How far the 6D numbers of the network are from two orthonormal columns; mean over joints."""
    rest = torch.tensor([1.0, 0, 0, 0, 1, 0]).to(frames.predicted.residual)
    first, second = (rest + frames.predicted.residual).split(3, dim=-1)
    lengths = [(column.square().sum(-1) + 1e-12).sqrt() for column in (first, second)]
    bent = (first * second).sum(-1).square()
    off: Tensor = (lengths[0] - 1).square() + (lengths[1] - 1).square() + bent
    return off.mean(-1)


def limb_geo(frames: Frames, skeleton: Skeleton, *, margin: float, topk: int) -> Tensor:
    """Mean of the `topk` largest angles of limb joints in a window beyond `margin`, in degrees."""
    joints = list(skeleton.limbs.values())
    found = angle(frames.predicted.state.rotations[:, :, joints], frames.truth.rotations[:, :, joints])
    beyond = (found * (180 / math.pi) - margin).relu()
    beyond = torch.where((frames.weights > 0)[..., None], beyond, 0.0).flatten(1)
    worst = beyond.topk(min(topk, beyond.shape[1]), dim=1).values.mean(1)
    return worst[:, None].expand(-1, frames.weights.shape[1])


def attn_reg(frames: Frames, skeleton: Skeleton) -> Tensor:
    """How old the frames are that attention reads, 0 the newest and 1 the oldest; mean over heads."""
    weights = frames.predicted.attention
    count = weights.shape[-1]
    ages = torch.arange(count - 1, -1, -1, device=weights.device) / max(1, count - 1)
    return (weights * ages).sum(-1).mean(-1)
