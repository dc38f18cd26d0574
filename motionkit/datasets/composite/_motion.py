"""The reference motion of a sample: its windows one after the other, with the seams blended."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from motionkit.datasets.composite._seams import blend_seam
from motionkit.geometry._yaw import heading, rotate_yaw
from motionkit.motion import Skeleton, joints_to_features, with_frame_after


def reference_joints(windows: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Join feature windows into one motion.

    Each window starts at the place and with the heading that the one before it ends with. At the seam the two poses
    meet half-way (`blend_seam`). There is no ground truth for how a person would have gone from one action to the
    next: the result is a rough reference, not captured motion.

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
            # Move on the floor only: heights are the clips' own.
            joints = joints + (end[0] - joints[0, 0]) * joints.new_tensor([1.0, 0.0, 1.0])
        pieces.append(joints)
    # The last frame of a piece and the first of the next are the same instant.
    for before, after in pairwise(pieces):
        blend_seam(before, after, skeleton, fps)
    return torch.cat([*(piece[:-1] for piece in pieces[:-1]), pieces[-1]])


def reference_features(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the ``[T, D]`` float32 features of `reference_joints` (``[T + 1, J, 3]``)."""
    return joints_to_features(joints.double(), skeleton, target=False).float()


def _bearing(pose: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the yaw of the line through hips and shoulders of a pose ``[J, 3]``."""
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    return heading(pose[right_hip] - pose[left_hip] + pose[right_shoulder] - pose[left_shoulder])
