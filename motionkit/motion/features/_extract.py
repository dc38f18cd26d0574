"""From joint positions to HumanML3D features (Guo et al., CVPR 2022), batched and in any float precision."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._retarget import target_bones
from motionkit.motion.features._rows import feature_rows

_PASS = 1400
"""Frames that go through the formulas together: intermediate results then stay in a core's cache."""


def joints_to_features(
    joints: Tensor,
    skeleton: Skeleton,
    lengths: Tensor | None = None,
    *,
    target: bool = True,
    bones: Tensor | None = None,
    align: bool = True,
    peer_turns: bool = False,
) -> Tensor:
    """Compute features from joint positions, as HumanML3D's ``process_file`` does.

    Give float64 joints where the last digits matter; the result has the dtype of `joints`.

    Args:
        joints: ``[..., T, J, 3]`` metres, Y up; a frame more than the features will have.
        skeleton: Body whose format is wanted.
        lengths: ``[...]`` int64 joint frames of each sample; padding may hold anything. The result then has
            ``lengths - 1`` valid frames and zeros after them.
        target: First move the motion onto the skeleton's target bones (`retarget`).
        bones: ``[J]`` other target bone lengths in metres; a body that publishes none (KIT) needs them.
        align: First put it on the floor, at the origin, facing +Z (`canonicalise`).
        peer_turns: Reproduce HumanML3D where a heading passes half a turn from +Z: its arcsin of a quaternion
            component has the wrong sign in that one frame, so that the recovered body is off by twice that frame's
            turn from there on. Off by default: the turn is right. All other frames are the same either way.

    Returns:
        ``[..., T - 1, D]``.

    Raises:
        MotionkitError: Wrong number of joints, fewer than two frames, or `target` for a body without target bones
            and none given.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> joints = torch.from_numpy(generate("walk", frames=41).joints)
        >>> joints_to_features(joints, HUMANML).shape
        torch.Size([40, 263])
    """
    if joints.ndim < 3 or joints.shape[-2:] != (skeleton.joints, 3) or joints.shape[-3] < 2:
        raise MotionkitError(
            f"joints have shape {list(joints.shape)}; expected [..., frames >= 2, {skeleton.joints}, 3] for the "
            f"{skeleton.name} body."
        )
    if lengths is not None:
        joints = _hold_last(joints, lengths)
    goal = target_bones(skeleton, bones).to(joints) if target else None
    clips = joints.reshape(-1, *joints.shape[-3:])
    frames = joints.shape[-3]
    step = max(_PASS // frames, 1) if joints.device.type == "cpu" else max(len(clips), 1)
    features = joints.new_empty(0)
    for start in range(0, len(clips), step):
        rows = feature_rows(clips[start : start + step], skeleton, goal, align=align, peer_turns=peer_turns)
        if len(rows) == len(clips):
            features = rows
        else:
            features = features if start else joints.new_empty(len(clips), frames - 1, skeleton.width)
            features[start : start + step] = rows
    features = features.reshape(*joints.shape[:-3], frames - 1, skeleton.width)
    if lengths is not None:
        valid = torch.arange(features.shape[-2], device=features.device) < (lengths - 1)[..., None]
        features = torch.where(valid[..., None], features, features.new_zeros(()))
    return features


def _hold_last(joints: Tensor, lengths: Tensor) -> Tensor:
    """Replace padding by the last valid frame: it moves nothing, and smoothing holds the ends anyway."""
    frames = torch.arange(joints.shape[-3], device=joints.device)
    index = torch.minimum(frames, (lengths - 1)[..., None])
    return torch.take_along_dim(joints, index[..., None, None], dim=-3)
