"""The reference motion of a sample: its windows one after the other, with the seams blended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from motionkit.geometry import heading, rotate_yaw
from motionkit.motion import Skeleton, joints_to_features
from motionkit.motion.features import with_frame_after

BLEND = 0.2
"""Seconds on each side of a seam over which the two poses are brought together."""


def reference_joints(windows: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Perform windows one after the other.

    Each window starts at the place and with the heading that the one before it ends with. At the seam the two poses
    meet half-way; the correction fades out over `BLEND` seconds on both sides. There is no ground truth for how a
    person would have gone from one action to the next: the result is a rough reference, not captured motion.

    Args:
        windows: K feature windows ``[T_k, D]``, not normalised.
        skeleton: Their body.
        fps: Frames per second.

    Returns:
        ``[sum T_k + 1, J, 3]`` float64 metres; one frame more than the features that are computed from it have.
    """
    pieces: list[Tensor] = []
    for window in windows:
        joints = with_frame_after(window.double(), skeleton)
        if pieces:
            # Of the body itself, not of the features: their heading is smoothed over a second and lags in turns.
            end = pieces[-1][-1]
            turn = _bearing(end, skeleton) - _bearing(joints[0], skeleton)
            joints = rotate_yaw(joints, turn)
            joints = joints + (end[0] - joints[0, 0]) * joints.new_tensor([1.0, 0.0, 1.0])
        pieces.append(joints)
    # The last frame of a piece and the first of the next are the same instant.
    for before, after in pairwise(pieces):
        gap = before[-1] - after[0]
        _fade(before, -0.5 * gap, fps, end=True)
        _fade(after, 0.5 * gap, fps, end=False)
    return torch.cat([*(piece[:-1] for piece in pieces[:-1]), pieces[-1]])


def reference_features(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the ``[T, D]`` float32 features of `reference_joints` (``[T + 1, J, 3]``)."""
    return joints_to_features(joints.double(), skeleton, target=False).float()


def _bearing(pose: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the yaw of the line through hips and shoulders of a pose ``[J, 3]``."""
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    return heading(pose[right_hip] - pose[left_hip] + pose[right_shoulder] - pose[left_shoulder])


def _fade(piece: Tensor, offset: Tensor, fps: float, *, end: bool) -> None:
    """Add `offset` (``[J, 3]``) to the first or last frame of `piece`, and less and less of it further in, in place."""
    frames = min(max(round(BLEND * fps), 1), len(piece) - 1)
    part = torch.arange(frames, dtype=piece.dtype) / frames
    change = 0.5 * (1 + torch.cos(math.pi * part))[:, None, None] * offset
    if end:
        piece[len(piece) - frames :] += change.flip(0)
    else:
        piece[:frames] += change
