"""Left and right swapped, in joints and in features; features of a larger or smaller body."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width, feature_layout


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

    Raises:
        MotionkitError: Wrong feature width.

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

    Raises:
        MotionkitError: Wrong feature width.
    """
    check_width(features, skeleton)
    layout, resized = feature_layout(skeleton), features.clone()
    for block in (layout.root_velocity, layout.root_height, layout.positions, layout.velocities):
        resized[..., block] *= factor
    return resized
