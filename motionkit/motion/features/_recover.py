"""From features back to joints: by stored positions (ric) or by stored rotations (rot)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, matrix_from_6d, positions_from_bones, rotate_yaw, yaw_matrix
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width, feature_layout


def features_to_joints(features: Tensor, skeleton: Skeleton, lengths: Tensor | None = None) -> Tensor:
    """Recover joint positions from the stored positions (HumanML3D's ``recover_from_ric``).

    Differentiable. A frame whose root or positions are not finite makes itself and the frames after it NaN and
    nothing else: neither values nor gradients of earlier frames or other samples are touched, so padding may hold
    anything.

    Args:
        features: ``[..., T, D]``, not normalised; half precision is computed in float32.
        skeleton: Body of the features.
        lengths: ``[...]`` int64. When given, frames past a sample's length are computed from zeros, which keeps
            huge finite padding out as well.

    Returns:
        ``[..., T, J, 3]`` metres, Y up, frame 0 at x = z = 0 and facing +Z.

    Raises:
        MotionkitError: Wrong feature width.
    """
    check_width(features, skeleton)
    layout = feature_layout(skeleton)
    clean, broken = _sanitise(features[..., : layout.positions.stop], lengths)
    angle, root = _root(clean, skeleton)
    local = clean[..., layout.positions].reshape(*clean.shape[:-1], -1, 3)
    turned = rotate_yaw(local, angle[..., None])
    ground = root * root.new_tensor([1.0, 0.0, 1.0])
    joints = torch.cat([root[..., None, :], turned + ground[..., None, :]], dim=-2)
    return _finish(joints, broken, skeleton)


def features_to_joints_rot(
    features: Tensor, skeleton: Skeleton, lengths: Tensor | None = None, *, offsets: Tensor | None = None
) -> Tensor:
    """Recover joint positions by forward kinematics on the stored rotations (HumanML3D's ``recover_from_rot``).

    Same arguments, shapes, NaN and gradient rules as `features_to_joints`.

    Args:
        features: ``[..., T, D]``, not normalised.
        skeleton: Body of the features.
        lengths: ``[...]`` int64, optional.
        offsets: ``[J, 3]`` rest-pose bones in metres; the skeleton's target when None.

    Returns:
        ``[..., T, J, 3]`` metres.

    Raises:
        MotionkitError: Wrong feature width, or a body without published bones and no `offsets`.
    """
    check_width(features, skeleton)
    if offsets is None:
        if skeleton.target_offsets is None:
            raise MotionkitError(
                f"the {skeleton.name} body has no published bone lengths.", fix="pass offsets, or recover by positions."
            )
        offsets = features.new_tensor(skeleton.target_offsets)
    layout = feature_layout(skeleton)
    clean, broken = _sanitise(features[..., : layout.rotations.stop], lengths)
    angle, root = _root(clean, skeleton)
    six = clean[..., layout.rotations].reshape(*clean.shape[:-1], -1, 6)
    # Frames of zeros have no rotation to orthonormalise; the identity keeps their gradients finite.
    empty = (six == 0).all(dim=-1, keepdim=True)
    six = torch.where(empty, six.new_tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]), six)
    # Chains start from the turn of the world into the heading frame (not from its inverse): see `_extract._rotations`.
    local = torch.cat([yaw_matrix(-angle)[..., None, :, :], matrix_from_6d(six)], dim=-3)
    rotations = accumulate_rotations(local, skeleton.rotation_parents)
    bones = (rotations @ (offsets.to(clean) / skeleton.unit)[..., None]).squeeze(-1)
    joints = positions_from_bones(torch.cat([root[..., None, :], bones[..., 1:, :]], dim=-2), skeleton.parents)
    return _finish(joints, broken, skeleton)


def root_trajectory(features: Tensor, skeleton: Skeleton, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the heading ``[..., T]`` (radians about +Y) and root position ``[..., T, 3]`` (metres) of features."""
    check_width(features, skeleton)
    clean, broken = _sanitise(features[..., : feature_layout(skeleton).root_height.stop], lengths)
    angle, root = _root(clean, skeleton)
    gone = broken.cummax(dim=-1).values
    return angle.masked_fill(gone, math.nan), (root * skeleton.unit).masked_fill(gone[..., None], math.nan)


def _sanitise(features: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return features with padding and non-finite frames zeroed, and which frames ``[..., T]`` were not finite."""
    if features.dtype in (torch.float16, torch.bfloat16):
        features = features.float()
    zero = features.new_zeros(())
    if lengths is not None:
        valid = torch.arange(features.shape[-2], device=features.device) < lengths[..., None]
        features = torch.where(valid[..., None], features, zero)
    broken = ~torch.isfinite(features).all(dim=-1)
    return torch.where(broken[..., None], zero, features), broken


def _root(features: Tensor, skeleton: Skeleton) -> tuple[Tensor, Tensor]:
    """Integrate yaw rate and velocity: rotation ``[..., T]`` from heading frame to world, root ``[..., T, 3]``."""
    layout = feature_layout(skeleton)
    rate = features[..., layout.yaw_rate].squeeze(-1)
    half = torch.cat([torch.zeros_like(rate[..., :1]), rate[..., :-1].cumsum(dim=-1)], dim=-1)
    angle = -2.0 * half
    x, z = features[..., :-1, layout.root_velocity].unbind(-1)
    step = rotate_yaw(torch.stack([x, torch.zeros_like(x), z], dim=-1), angle[..., 1:])
    path = torch.cat([torch.zeros_like(features[..., :1, :3]), step.cumsum(dim=-2)], dim=-2)
    height = features[..., layout.root_height]
    return angle, torch.cat([path[..., :1], height, path[..., 2:]], dim=-1)


def _finish(joints: Tensor, broken: Tensor, skeleton: Skeleton) -> Tensor:
    """Scale to metres and mark everything from the first broken frame on, without touching gradients before it."""
    gone = broken.cummax(dim=-1).values
    return (joints * skeleton.unit).masked_fill(gone[..., None, None], math.nan)
