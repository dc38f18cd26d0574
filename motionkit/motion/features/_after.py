"""The frame that features know of and do not store."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.geometry import rotate_yaw
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import feature_layout
from motionkit.motion.features._recover import features_to_joints, root_trajectory


def frame_after(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the joints of the frame after the last row.

    T + 1 frames of joints make T rows; the last row's velocities lead to the frame that was lost. With it,
    ``joints_to_features(..., target=False, align=False)`` gives the rows back: without it, smoothing sees a shorter
    motion and every heading changes a little.

    Args:
        features: ``[..., T, D]`` without padding, not normalised, as extracted; in generated motions velocities and
            positions disagree, and so would this frame.
        skeleton: Body of the features.

    Returns:
        ``[..., J, 3]`` metres.

    Raises:
        MotionkitError: Wrong feature width.
    """
    joints = features_to_joints(features, skeleton)[..., -1, :, :]
    angle, _ = root_trajectory(features, skeleton)
    layout = feature_layout(skeleton)
    moved = features[..., -1, layout.velocities].reshape(*features.shape[:-2], skeleton.joints, 3).to(joints)
    step: Tensor = rotate_yaw(moved, angle[..., -1, None]) * skeleton.unit
    return joints + step


def with_frame_after(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return all T + 1 frames that T rows were made of, ``[..., T + 1, J, 3]`` metres; see `frame_after`."""
    after = frame_after(features, skeleton)
    return torch.cat([features_to_joints(features, skeleton), after[..., None, :, :]], dim=-3)
