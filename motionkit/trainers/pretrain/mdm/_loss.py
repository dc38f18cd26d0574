"""MDM's training loss."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.geometry._yaw import rotate_yaw
from motionkit.motion import Normalizer, Skeleton


def diffusion_loss(predicted: Tensor, x0: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared error of x0 over valid entries, per sample (Tevet et al. 2022, eq. 2).

    Args:
        predicted: ``[B, T, D]``.
        x0: ``[B, T, D]`` normalised.
        mask: ``[B, T]`` bool, at least one True per row.

    Returns:
        ``[B]`` float32: sum of squares over valid frames / (D * number of valid frames).
    """
    squares = (predicted.float() - x0).square().sum(-1).masked_fill(~mask, 0.0)
    return squares.sum(1) / (mask.sum(1) * x0.shape[-1])


def velocity_loss(predicted: Tensor, x0: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared error of frame-to-frame differences over valid pairs, per sample (MDM, eq. 5).

    An error that alternates between frames costs four times its square here and one that is constant costs nothing,
    so this is what keeps a small network from jittering. Taken in feature space, where it needs no body.

    Args:
        predicted: ``[B, T, D]``.
        x0: ``[B, T, D]`` normalised.
        mask: ``[B, T]`` bool.

    Returns:
        ``[B]`` float32; 0 for motions of one frame.
    """
    pairs = mask[:, 1:] & mask[:, :-1]
    error = (predicted.float() - x0).masked_fill(~mask[..., None], 0.0)
    squares = (error[:, 1:] - error[:, :-1]).square().sum(-1).masked_fill(~pairs, 0.0)
    return squares.sum(1) / (pairs.sum(1).clamp(min=1) * x0.shape[-1])


def joint_velocity_loss(
    predicted: Tensor, x0: Tensor, mask: Tensor, *, normalizer: Normalizer, skeleton: Skeleton, fps: float
) -> Tensor:
    """Return the mean squared error of the joints' velocities over valid pairs of frames, per sample.

    MDM's geometric losses (eq. 3 to 5) in one: a foot that slides, a limb that moves too little and a frame that jumps
    are errors of velocity. Each pair is seen from the heading of its later frame: the speeds are those in the world,
    but an error of heading does not add up over the frames behind it.

    Args:
        predicted: ``[B, T, D]`` normalised.
        x0: ``[B, T, D]`` normalised.
        mask: ``[B, T]`` bool.
        normalizer: Statistics of the features.
        skeleton: Body of the features.
        fps: Frames per second.

    Returns:
        ``[B]`` float32, (m/s)^2 averaged over pairs, joints and the three axes; 0 for motions of one frame.
    """
    pairs = mask[:, 1:] & mask[:, :-1]
    used = 4 + 3 * (skeleton.joints - 1)
    mean, std = normalizer.mean[:used], normalizer.std[:used]
    inside = [part.float()[..., :used].masked_fill(~mask[..., None], 0.0) for part in (predicted, x0)]
    moved = [_steps(part * std + mean) for part in inside]
    error = (moved[0] - moved[1]) * (skeleton.unit * fps)
    squares = error.square().mean((-1, -2)).masked_fill(~pairs, 0.0)
    return squares.sum(1) / pairs.sum(1).clamp(min=1)


def _steps(features: Tensor) -> Tensor:
    """Return the joints' displacements ``[B, T - 1, J, 3]`` in the heading of each pair's later frame.

    ``features`` are ``[B, T, 4 + 3 (J - 1)]``, not normalised: half the turn per frame, the root's step (x and z) in
    the next frame's heading, its height, the positions of the other joints in the frame's own heading.
    """
    turn, step, height = features[:, :-1, 0], features[:, :-1, 1:3], features[..., 3]
    local = features[..., 4:].unflatten(-1, (-1, 3))
    ground = torch.stack((step[..., 0], torch.zeros_like(turn), step[..., 1]), dim=-1)
    # The heading turns by -2 turn, so what stands still turns by 2 turn in the eyes of the later frame.
    others = local[:, 1:] - rotate_yaw(local[:, :-1], 2 * turn[..., None]) + ground[..., None, :]
    root = torch.stack((step[..., 0], height[:, 1:] - height[:, :-1], step[..., 1]), dim=-1)
    return torch.cat((root[..., None, :], others), dim=-2)
