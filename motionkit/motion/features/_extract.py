"""From joint positions to HumanML3D features (Guo et al., CVPR 2022), batched and in any float precision."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.errors import MotionkitError
from motionkit.geometry import bones_from_positions, heading, matrix_to_6d, rotate_yaw, rotation_between, yaw_matrix
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._retarget import canonicalise, retarget

_SMOOTHING = 20.0
"""Standard deviation, in frames, of the Gaussian that smooths the forward direction."""


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
    """
    if joints.ndim < 3 or joints.shape[-2:] != (skeleton.joints, 3) or joints.shape[-3] < 2:
        raise MotionkitError(
            f"joints have shape {list(joints.shape)}; expected [..., frames >= 2, {skeleton.joints}, 3] for the "
            f"{skeleton.name} body."
        )
    if lengths is not None:
        joints = _hold_last(joints, lengths)
    if target:
        joints = retarget(joints, skeleton, bones)
    if align:
        joints = canonicalise(joints, skeleton)
    features = _features(joints / skeleton.unit, skeleton, peer_turns)
    if lengths is not None:
        valid = torch.arange(features.shape[-2], device=features.device) < (lengths - 1)[..., None]
        features = torch.where(valid[..., None], features, features.new_zeros(()))
    return features


def facing(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the smoothed half heading ``[..., T]`` in radians that features are expressed in; 0 at frame 0.

    HumanML3D takes the hips swapped and the shoulders not, so that the hips count against the shoulders; every
    public feature contains this, and so does this function.
    """
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    across = joints[..., left_hip, :] - joints[..., right_hip, :]
    across = across + joints[..., right_shoulder, :] - joints[..., left_shoulder, :]
    across = functional.normalize(across, dim=-1, eps=1e-12)
    x, _, z = across.unbind(-1)
    forward = torch.stack([z, torch.zeros_like(x), -x], dim=-1)
    half = -0.5 * heading(_smooth(forward))
    return torch.cat([torch.zeros_like(half[..., :1]), half[..., 1:]], dim=-1)


def _features(joints: Tensor, skeleton: Skeleton, peer_turns: bool) -> Tensor:
    """Compute features of joints that are in place already, in the skeleton's own units."""
    half = facing(joints, skeleton)
    angle = 2.0 * half
    rate = torch.asin((half[..., 1:] - half[..., :-1]).sin())
    if not peer_turns:
        turn = angle[..., 1:] - angle[..., :-1]
        rate = 0.5 * torch.atan2(turn.sin(), turn.cos())
    root = joints[..., 0, :]
    velocity = rotate_yaw(root[..., 1:, :] - root[..., :-1, :], angle[..., 1:])
    local = rotate_yaw(joints - root[..., None, :] * root.new_tensor([1.0, 0.0, 1.0]), angle[..., None])
    motion = rotate_yaw(joints[..., 1:, :, :] - joints[..., :-1, :, :], angle[..., :-1, None])
    parts = [
        rate[..., None],
        velocity[..., ::2],
        root[..., :-1, 1:2],
        local[..., :-1, 1:, :].flatten(-2),
        _rotations(joints, skeleton, angle)[..., :-1, :],
        motion.flatten(-2),
        foot_contacts(joints, skeleton),
    ]
    return torch.cat(parts, dim=-1)


def foot_contacts(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return ``[..., T - 1, 4]`` contacts (0 or 1) by speed alone, without a height test (HumanML3D's rule).

    Args:
        joints: ``[..., T, J, 3]`` in the skeleton's stored units.
        skeleton: Gives the feet and the threshold.
    """
    feet = joints[..., list(skeleton.feet), :]
    moved = (feet[..., 1:, :, :] - feet[..., :-1, :, :]).square().sum(-1)
    return (moved < skeleton.contact_threshold).to(joints.dtype)


def _rotations(joints: Tensor, skeleton: Skeleton, angle: Tensor) -> Tensor:
    """Return 6D rotations ``[..., T, 6 (J-1)]``: each bone's smallest rotation from rest, relative to its chain."""
    bones = bones_from_positions(joints, skeleton.parents)[..., 1:, :]
    rest = joints.new_tensor(skeleton.raw_offsets)[1:]
    world = torch.cat([yaw_matrix(angle)[..., None, :, :], rotation_between(rest, bones)], dim=-3)
    # HumanML3D's root quaternion takes the world into the heading frame, and its chains start from that very
    # quaternion, not from its inverse; recovery from rotations undoes it the same way.
    start = world[..., list(skeleton.rotation_parents[1:]), :, :]
    local = start.transpose(-1, -2) @ world[..., 1:, :, :]
    return matrix_to_6d(local).flatten(-2)


def _smooth(vectors: Tensor) -> Tensor:
    """Convolve ``[..., T, 3]`` over time with a Gaussian cut at four standard deviations, ends held."""
    radius = int(4.0 * _SMOOTHING + 0.5)
    offsets = torch.arange(-radius, radius + 1, dtype=vectors.dtype, device=vectors.device)
    kernel = torch.exp(-0.5 * (offsets / _SMOOTHING).square())
    rows = vectors.transpose(-1, -2).reshape(-1, 1, vectors.shape[-2])
    padded = functional.pad(rows, (radius, radius), mode="replicate")
    smooth = functional.conv1d(padded, (kernel / kernel.sum())[None, None])
    return smooth.reshape(*vectors.shape[:-2], vectors.shape[-1], vectors.shape[-2]).transpose(-1, -2)


def _hold_last(joints: Tensor, lengths: Tensor) -> Tensor:
    """Replace padding by the last valid frame: it moves nothing, and smoothing holds the ends anyway."""
    frames = torch.arange(joints.shape[-3], device=joints.device)
    index = torch.minimum(frames, (lengths - 1)[..., None])
    return torch.take_along_dim(joints, index[..., None, None], dim=-3)
