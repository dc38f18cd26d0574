"""Blends two pieces of a motion where they meet, without changing bone lengths."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from motionkit.geometry._kinematics import bones_from_positions, positions_from_bones
from motionkit.geometry._rotations import rotation_between
from motionkit.motion import Skeleton

BLEND = 0.2
"""Seconds on each side of a seam over which the two poses are blended."""


def blend_seam(before: Tensor, after: Tensor, skeleton: Skeleton, fps: float) -> None:
    """Let the last pose of one piece and the first of the next meet half-way, in place.

    Every bone is turned by its part of the smallest rotation between its directions in the two poses, so that limbs
    keep their lengths; a length that differs between the pieces changes over in the same way. The body is then set
    down so that its lowest joint is between those of the two pieces: feet that are on the ground before and after stay
    there. All of it fades out over `BLEND` seconds on both sides.

    Args:
        before: ``[T, J, 3]`` metres; its last frame is the instant of the first frame of `after`.
        after: ``[T', J, 3]``.
        skeleton: The body.
        fps: Frames per second.
    """
    import roma

    parents = skeleton.parents
    first, second = bones_from_positions(before[-1], parents), bones_from_positions(after[0], parents)
    # One rotation for both sides: opposite directions have no smallest one, and each side would choose another.
    turn = roma.rotmat_to_rotvec(rotation_between(first, second))
    # [J, 3] rotation vectors from the directions of the bones before the seam to those after it; [J, 1] metres.
    longer = (second.norm(dim=-1) - first.norm(dim=-1))[:, None]
    ground = 0.5 * (before[-1, :, 1].min() + after[0, :, 1].min())
    frames = [min(max(round(BLEND * fps), 1), len(piece) - 1) for piece in (before, after)]
    for part, share, sign in (
        (before[len(before) - frames[0] :], _fading(frames[0]).flip(0), 1.0),
        (after[: frames[1]], _fading(frames[1]), -1.0),
    ):
        # [frames, 1, 1] share of the correction: the last pose goes half-way forward, the next half-way back.
        step = (0.5 * sign * share).to(part)[:, None, None]
        bones = bones_from_positions(part, parents)
        turned = (roma.rotvec_to_rotmat(step * turn) @ bones[..., None])[..., 0]
        turned = turned * (1 + step * longer / bones.norm(dim=-1, keepdim=True).clamp_min(1e-9))
        turned[:, 0] = bones[:, 0] + step[:, 0] * (second - first)[0]
        joints = positions_from_bones(turned, parents)
        lowest = torch.lerp(part[..., 1].amin(1), ground, share.to(part))
        joints[..., 1] += (lowest - joints[..., 1].amin(1))[:, None]
        part.copy_(joints)


def _fading(frames: int) -> Tensor:
    """Return the share of the correction at a seam and in the frames away from it, from 1 to nearly 0."""
    return 0.5 * (1 + torch.cos(math.pi * torch.arange(frames, dtype=torch.float64) / frames))
