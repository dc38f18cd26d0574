"""The supervised losses of a diffusion model on clips, each per sample, and their weighted mean."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from motionkit.geometry import rotate_yaw
from motionkit.motion import Normalizer, Skeleton
from motionkit.nn import differences, squared_length, zeroed
from motionkit.text_to_motion.mdm.settings import MdmTrainSettings
from motionkit.text_to_motion.policy import DiffusionPolicy


def diffusion_loss(
    predicted: Tensor,  # [B, T, D]
    x0: Tensor,  # [B, T, D] normalised
    mask: Tensor,  # [B, T] bool, at least one True per row
) -> Tensor:
    """Return the mean squared error of x0 over valid entries, ``[B]`` float32 (Tevet et al. 2022, eq. 2)."""
    return _diffusion(zeroed(predicted.float() - x0, mask), mask)


def _diffusion(error: Tensor, mask: Tensor) -> Tensor:
    return squared_length(error).sum(1) / (mask.sum(1) * error.shape[-1])


def velocity_loss(predicted: Tensor, x0: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared error of frame-to-frame differences over valid pairs, ``[B]`` float32 (MDM, eq. 5).

    An error that alternates between frames costs four times its square and a constant one costs nothing, which keeps a
    small network from jittering. It is in feature space, so no body is needed. 0 for motions of one frame.

    Args:
        predicted: ``[B, T, D]``.
        x0: ``[B, T, D]`` normalised.
        mask: ``[B, T]`` bool.
    """
    return _velocity(zeroed(predicted.float() - x0, mask), mask)


def _velocity(error: Tensor, mask: Tensor) -> Tensor:
    # A difference is valid if both of its frames are.
    pairs = mask[:, 1:] & mask[:, :-1]
    squares = squared_length(differences(error)).masked_fill(~pairs, 0.0)
    return squares.sum(1) / (pairs.sum(1).clamp(min=1) * error.shape[-1])


def joint_velocity_loss(
    predicted: Tensor, x0: Tensor, mask: Tensor, *, normalizer: Normalizer, skeleton: Skeleton, fps: float
) -> Tensor:
    """Return the mean squared error of the joints' velocities over valid pairs of frames, per sample.

    MDM's geometric losses (eq. 3 to 5) in one: a foot that slides, a limb that moves too little and a frame that jumps
    are errors of velocity. Velocities are relative to the world, in axes of the later frame's heading, so that errors
    of heading do not accumulate over time.

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
    # The first features of a frame: those of the root, then the other joints' positions.
    used = 4 + 3 * (skeleton.joints - 1)
    mean, std = normalizer.mean[:used], normalizer.std[:used]
    inside = [zeroed(part.float()[..., :used], mask) for part in (predicted, x0)]
    moved = [_steps(part * std + mean) for part in inside]
    # [B, T - 1, J, 3], from units of the skeleton per frame to m/s.
    error = (moved[0] - moved[1]) * (skeleton.unit * fps)
    squares = error.square().mean((-1, -2)).masked_fill(~pairs, 0.0)
    return squares.sum(1) / pairs.sum(1).clamp(min=1)


def clip_losses(
    predicted: Tensor, x0: Tensor, mask: Tensor, policy: DiffusionPolicy, *, joint_velocity: bool = True
) -> dict[str, Tensor]:
    """Return the losses of each sample before they are weighted, ``[B]`` float32 each, by name.

    Args:
        predicted: ``[B, T, D]`` normalised.
        x0: ``[B, T, D]`` normalised.
        mask: ``[B, T]`` bool.
        policy: Its statistics, body and rate are used.
        joint_velocity: Whether the joints' velocities are among them.
    """
    error = zeroed(predicted.float() - x0, mask)
    losses = {"diffusion": _diffusion(error, mask), "velocity": _velocity(error, mask)}
    if joint_velocity:
        assert isinstance(policy.skeleton, Skeleton), "MDM's features"
        losses["joint_velocity"] = joint_velocity_loss(
            predicted, x0, mask, normalizer=policy.normalizer, skeleton=policy.skeleton, fps=policy.fps
        )
    return losses


def weighted_loss(losses: Mapping[str, Tensor], weight: Tensor, train: MdmTrainSettings) -> Tensor:
    """Return the mean over samples of the weighted sum of `clip_losses`.

    Args:
        losses: ``[B]`` each.
        weight: ``[B]``, of each sample's timestep: its signal-to-noise ratio within bounds.
        train: Weights.
    """
    sums = losses["diffusion"] + train.velocity * losses["velocity"]
    if train.joint_velocity:
        sums = sums + train.joint_velocity * losses["joint_velocity"]
    return (weight.to(sums) * sums).mean()


def _steps(features: Tensor) -> Tensor:
    """Return the joints' displacements ``[B, T - 1, J, 3]`` in the heading of each pair's later frame.

    ``features`` are ``[B, T, 4 + 3 (J - 1)]``, not normalised: half the turn per frame, the root's step (x and z) in
    the next frame's heading, its height, the positions of the other joints in the frame's heading.
    """
    turn, step, height = features[:, :-1, 0], features[:, :-1, 1:3], features[..., 3]
    # [B, T, J - 1, 3], without the root
    local = features[..., 4:].unflatten(-1, (-1, 3))
    # [B, T - 1, 3]: the root's step along the floor, the same for every joint
    ground = torch.stack((step[..., 0], torch.zeros_like(turn), step[..., 1]), dim=-1)
    # The heading turns by -2 turn, so a joint at rest turns by 2 turn in the later frame's axes.
    limbs = local[:, 1:] - rotate_yaw(local[:, :-1], 2 * turn[..., None]) + ground[..., None, :]
    # The root's height is a position, its step a difference already.
    root = torch.stack((step[..., 0], height[:, 1:] - height[:, :-1], step[..., 1]), dim=-1)
    return torch.cat((root[..., None, :], limbs), dim=-2)
