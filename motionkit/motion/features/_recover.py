"""From features back to joints: by stored positions (ric) or by stored rotations (rot)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from motionkit import kernels
from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, matrix_from_6d, positions_from_bones, yaw_matrix
from motionkit.kernels.recovery import finish, root_path, sanitise
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width, feature_layout
from motionkit.motion.features._stats import Normalizer


def features_to_joints(
    features: Tensor,
    skeleton: Skeleton,
    lengths: Tensor | None = None,
    *,
    normalizer: Normalizer | None = None,
    backend: str = "auto",
) -> Tensor:
    """Recover joint positions from the stored positions (HumanML3D's ``recover_from_ric``).

    Differentiable. A frame whose root or positions are not finite makes itself and the frames after it NaN and
    nothing else: neither values nor gradients of earlier frames or other samples are touched, so padding may hold
    anything. On a CUDA device float32 features take one fused kernel (`motionkit.kernels`), which can be differentiated
    once.

    Args:
        features: ``[..., T, D]``, not normalised unless `normalizer` is given; half precision is computed in float32.
        skeleton: Body of the features.
        lengths: ``[...]`` int64. When given, frames past a sample's length are computed from zeros, which keeps
            huge finite padding out as well.
        normalizer: Statistics of normalised features, on their device; applied on the way.
        backend: ``auto``, ``cuda`` or ``torch``; see `motionkit.kernels.features_to_joints`.

    Returns:
        ``[..., T, J, 3]`` metres, Y up, frame 0 at x = z = 0 and facing +Z.

    Raises:
        MotionkitError: Wrong feature width.
    """
    check_width(features, skeleton)
    return kernels.features_to_joints(
        features,
        joints=skeleton.joints,
        unit=skeleton.unit,
        lengths=lengths,
        mean=None if normalizer is None else normalizer.mean,
        std=None if normalizer is None else normalizer.std,
        backend=backend,
    )


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
    clean, broken = sanitise(features[..., : layout.rotations.stop], lengths)
    angle, root = root_path(clean)
    six = clean[..., layout.rotations].reshape(*clean.shape[:-1], -1, 6)
    # Frames of zeros have no rotation to orthonormalise; the identity keeps their gradients finite.
    empty = (six == 0).all(dim=-1, keepdim=True)
    six = torch.where(empty, six.new_tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]), six)
    # Chains start from the turn of the world into the heading frame (not from its inverse): see `_extract._rotations`.
    local = torch.cat([yaw_matrix(-angle)[..., None, :, :], matrix_from_6d(six)], dim=-3)
    rotations = accumulate_rotations(local, skeleton.rotation_parents)
    bones = (rotations @ (offsets.to(clean) / skeleton.unit)[..., None]).squeeze(-1)
    joints = positions_from_bones(torch.cat([root[..., None, :], bones[..., 1:, :]], dim=-2), skeleton.parents)
    return finish(joints, broken, skeleton.unit)


def root_trajectory(features: Tensor, skeleton: Skeleton, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the heading ``[..., T]`` (radians about +Y) and root position ``[..., T, 3]`` (metres) of features."""
    check_width(features, skeleton)
    clean, broken = sanitise(features[..., : feature_layout(skeleton).root_height.stop], lengths)
    angle, root = root_path(clean)
    gone = broken.cummax(dim=-1).values
    return angle.masked_fill(gone, math.nan), (root * skeleton.unit).masked_fill(gone[..., None], math.nan)
