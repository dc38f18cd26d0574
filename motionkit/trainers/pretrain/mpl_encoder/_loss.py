"""Losses of the encoder's three heads."""

from __future__ import annotations

import torch
from torch import Tensor

_RARE = 0.02
"""Share of frames below which a gait counts no more than at it: one odd frame should not rule."""


def period_loss(predicted: Tensor, period: Tensor, confidence: Tensor) -> Tensor:
    """Return the mean square of the soft period's errors, weighed by its confidence.

    A mean of squares makes the length of a foot's (sine, cosine) fall where the phase cannot be known.

    Args:
        predicted: ``[N, 4]`` sine left, sine right, cosine left, cosine right.
        period: ``[N, 4]``.
        confidence: ``[N, 2]`` left and right; 0 leaves a foot out.
    """
    weight = confidence.repeat(1, 2)
    return (weight * (predicted - period).square()).sum() / weight.sum().clamp_min(1e-6)


def gait_weights(gait: Tensor) -> Tensor:
    """Return ``[4]`` weights of the gaits, ``1 / sqrt(share of the frames)``, whose mean over the frames is 1.

    Args:
        gait: ``[F, 4]`` of the training frames; rows of zeros are not known.
    """
    total = gait.sum()
    if not total > 0:
        return torch.ones_like(gait[0])
    share = gait.sum(0) / total
    weight = share.clamp_min(_RARE).rsqrt()
    return weight / (weight * share).sum()


def gait_loss(logits: Tensor, gait: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted cross-entropy with soft labels, in nats, mean over the frames whose gait is known.

    Args:
        logits: ``[N, 4]``.
        gait: ``[N, 4]``; rows sum to 1, or to 0 where it is not known.
        weights: ``[4]`` of `gait_weights`.
    """
    losses = -(weights * gait * logits.log_softmax(-1)).sum(-1)
    return losses.sum() / gait.sum().clamp_min(1e-6)


def pose_loss(predicted: Tensor, turns: Tensor, scale: Tensor, has_pose: Tensor) -> Tensor:
    """Return the smooth L1 between predicted and true turns to the pose ahead, in deviations.

    Args:
        predicted: ``[N, J, 6]`` in deviations, as the pose head gives them.
        turns: ``[N, J, 6]`` true turns in 6D minus the identity.
        scale: ``[6 J]`` the deviations.
        has_pose: ``[N]`` bool: the clip goes on that far.
    """
    true = turns / scale.view_as(turns[0])
    errors = torch.nn.functional.smooth_l1_loss(predicted, true, reduction="none").mean((-2, -1))
    return (errors * has_pose).sum() / has_pose.sum().clamp_min(1)
