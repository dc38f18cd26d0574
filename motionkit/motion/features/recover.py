"""From features back to joints, by the stored positions."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from motionkit import kernels
from motionkit.geometry import rotate_yaw
from motionkit.kernels.definitions import root_path, sanitise
from motionkit.motion.features.layout import Normalizer, check_width, feature_layout
from motionkit.motion.skeleton import Skeleton

# Left and right swapped, in joints and in features; features of a larger or smaller body.


def mirror(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return joints ``[..., J, 3]`` reflected in x, with left and right joints swapped.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML
        >>> joints = torch.zeros(22, 3)
        >>> joints[HUMANML.index("left_wrist")] = torch.tensor([0.7, 1.4, 0.0])
        >>> mirror(joints, HUMANML)[HUMANML.index("right_wrist")]
        tensor([-0.7000,  1.4000,  0.0000])
    """
    return joints[..., list(skeleton.mirror_order), :] * joints.new_tensor([-1.0, 1.0, 1.0])


def mirror_features(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return feature rows ``[..., T, D]`` (not normalised) of the motion reflected in x, left and right swapped.

    The same as the features of mirrored joints, at the price of exchanging columns.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> row = torch.zeros(1, HUMANML.width)
        >>> row[0, 0] = 0.1  # turns to the left
        >>> float(mirror_features(row, HUMANML)[0, 0])
        -0.10000000149011612
    """
    check_width(features, skeleton)
    order, signs = _mirrored_columns(skeleton)
    return features[..., order.to(features.device)] * signs.to(features)


@cache
def _mirrored_columns(skeleton: Skeleton) -> tuple[Tensor, Tensor]:
    """Return for every feature the column that it comes from, and its sign: ``[D]`` each."""
    layout = feature_layout(skeleton)
    order, signs = torch.arange(skeleton.width), torch.ones(skeleton.width)
    signs[layout.yaw_rate] = -1.0
    signs[layout.root_velocity.start] = -1.0
    partners = torch.tensor(skeleton.mirror_order)
    # A rotation R becomes M R M with M = diag(-1, 1, 1); stored are its first two columns.
    turned = [1.0, -1.0, -1.0, -1.0, 1.0, 1.0]
    for block, first, sign in (
        (layout.positions, 1, [-1.0, 1.0, 1.0]),
        (layout.rotations, 1, turned),
        (layout.velocities, 0, [-1.0, 1.0, 1.0]),
    ):
        width = len(sign)
        joints = partners[first:] - first
        order[block] = block.start + (joints[:, None] * width + torch.arange(width)).flatten()
        signs[block] = torch.tensor(sign).repeat(len(joints))
    feet = list(skeleton.feet)
    order[layout.contacts] = torch.tensor(
        [layout.contacts.start + feet.index(skeleton.mirror_order[foot]) for foot in feet]
    )
    return order, signs


def resize_features(features: Tensor, skeleton: Skeleton, factor: Tensor) -> Tensor:
    """Return feature rows ``[..., T, D]`` (not normalised) of a body `factor` times as large, its path with it.

    Contacts stay.
    """
    check_width(features, skeleton)
    layout, resized = feature_layout(skeleton), features.clone()
    for block in (layout.root_velocity, layout.root_height, layout.positions, layout.velocities):
        resized[..., block] *= factor
    return resized


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

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML, joints_to_features
        >>> from motionkit.starter import generate
        >>> joints = torch.from_numpy(generate("walk", frames=41).joints)
        >>> again = features_to_joints(joints_to_features(joints, HUMANML, target=False, align=False), HUMANML)
        >>> again.shape
        torch.Size([40, 22, 3])
        >>> bool(((again - joints[:-1])[..., 1].abs() < 1e-9).all())  # the path starts at x = z = 0
        True
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


def root_trajectory(features: Tensor, skeleton: Skeleton, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the heading ``[..., T]`` (radians about +Y) and root position ``[..., T, 3]`` (metres) of features."""
    check_width(features, skeleton)
    clean, broken = sanitise(features[..., : feature_layout(skeleton).root_height.stop], lengths)
    angle, root = root_path(clean)
    gone = broken.cummax(dim=-1).values
    return angle.masked_fill(gone, math.nan), (root * skeleton.unit).masked_fill(gone[..., None], math.nan)


def with_frame_after(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return all T + 1 frames of joints that T feature rows were made of.

    T + 1 frames of joints make T rows; the last row's velocities lead to the frame that was lost. With it,
    ``joints_to_features(..., target=False, align=False)`` gives the rows back; without it, smoothing sees a shorter
    motion and every heading changes a little.

    Args:
        features: ``[..., T, D]`` without padding, not normalised, as extracted; in generated motions velocities and
            positions disagree, and so would the last frame.
        skeleton: Body of the features.

    Returns:
        ``[..., T + 1, J, 3]`` metres.
    """
    joints = features_to_joints(features, skeleton)
    angle, _ = root_trajectory(features, skeleton)
    # The stored velocities are in the heading of their own frame: turn them back into the world.
    moved = features[..., -1, feature_layout(skeleton).velocities].unflatten(-1, (skeleton.joints, 3)).to(joints)
    step: Tensor = rotate_yaw(moved, angle[..., -1, None]) * skeleton.unit
    return torch.cat([joints, (joints[..., -1, :, :] + step)[..., None, :, :]], dim=-3)
