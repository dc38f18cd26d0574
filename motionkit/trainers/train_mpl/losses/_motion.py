"""Losses of joint positions, root motion, feet and latents, per frame: ``[N, F]``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.metrics import CONTACT
from motionkit.motion.prediction._state import follow, state_positions
from motionkit.trainers.train_mpl.losses._frames import Frames, Skeleton

_METRES = 0.5
"""Metres that a radian of heading counts as: what a body half a metre wide is off by."""

_TINY = 1e-14

_JERK = 3
"""Frames before a frame that its jerk needs."""


def fk_pos(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Smooth L1 between joint positions in metres, root at the origin and unturned; mean over joints and axes."""
    there, where = (
        state_positions(state, frames.offsets, skeleton.parents, pose_only=True)
        for state in (frames.predicted.state, frames.truth)
    )
    return F.smooth_l1_loss(there, where, reduction="none", beta=0.05).mean((-1, -2))


def root(frames: Frames, skeleton: Skeleton) -> Tensor:
    """L1 of the root's steps and of its height, in their own deviations: mean of a step's parts, plus the height."""
    state, truth = frames.predicted.state, frames.truth
    steps = ((state.steps - truth.steps) * skeleton.fps / skeleton.root_std[:3]).abs().mean(-1)
    return steps + ((state.heights - truth.heights) / skeleton.root_std[3]).abs()


def place(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Metres between the root and where the true one is, plus half a metre per radian between their headings.

    Seen from the last known frame: what was missed in a step counts in all frames after it. 0 for windows that are not
    told their path: with it free walks on CMU went faster and faster.
    """
    (where, yaw), (there, facing) = (follow(state.steps) for state in (frames.predicted.state, frames.truth))
    squared = (where - there).square().sum(-1)
    apart = squared > _TINY  # between equal places the gradient is 0
    away = torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)
    return torch.where(frames.told[:, None], away + _METRES * (yaw - facing).abs(), 0.0)


def contacts(frames: Frames, skeleton: Skeleton) -> Tensor:
    """L1 of both feet's contacts, which are shares and no classes; 0 for clips whose contacts are not known."""
    away = (frames.predicted.state.contacts - frames.truth.contacts).abs().mean(-1)
    return torch.where(frames.contacts_known[:, None], away, 0.0)


def skate(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Metres per second that a foot slides while the true one stands; mean over feet. 0 where feet are not known."""
    if skeleton.feet is None:
        return torch.zeros_like(frames.weights)
    state = frames.last.then(frames.predicted.state)
    feet = state_positions(state, frames.offsets, skeleton.parents)[:, :, list(skeleton.feet)]
    speed = skeleton.fps * (feet[..., ::2].diff(dim=1).square().sum(-1) + 1e-8).sqrt()
    stands = (frames.truth.contacts > CONTACT) & frames.contacts_known[:, None, None]
    return (speed * stands).mean(-1)


def jerk(frames: Frames, skeleton: Skeleton) -> Tensor:
    """``|log|`` of predicted over true jerk of each frame from the third on; a frozen pose costs as a trembling one."""
    both = []
    for state in (frames.predicted.state, frames.truth):
        places = state_positions(frames.last.then(state), frames.offsets, skeleton.parents)
        if places.shape[1] <= _JERK:
            return torch.zeros_like(frames.weights)
        lengths = (places.diff(n=_JERK, dim=1).square().sum(-1) + 1e-14).sqrt()
        both.append(lengths.mean(-1) * skeleton.fps**_JERK)
    ratio = ((both[0] + 1.0) / (both[1] + 1.0)).log().abs()
    return F.pad(ratio, (_JERK - 1, 0))


def latent_consistency(said: Tensor, period: Tensor, *, cosine: bool) -> Tensor:
    """Difference ``[N, F]`` between the soft period that the hidden state tells and that of the encoder.

    Args:
        said: ``[N, F, L]`` of the predictor's hidden state.
        period: ``[N, F, L]`` of the encoder, on the true frames.
        cosine: 1 - cosine in place of L1.
    """
    if cosine:
        return 1 - F.cosine_similarity(said, period, dim=-1)
    return (said - period).abs().mean(-1)
