"""Left and right swapped: in joints, in features, in words."""

from __future__ import annotations

import re

from torch import Tensor

from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width, feature_layout

_OPPOSITE = {
    "left": "right",
    "right": "left",
    "clockwise": "counterclockwise",
    "counterclockwise": "clockwise",
    "anticlockwise": "clockwise",
    "counter-clockwise": "clockwise",
    "anti-clockwise": "clockwise",
    "counter clockwise": "clockwise",
    "leftward": "rightward",
    "rightward": "leftward",
    "leftwards": "rightwards",
    "rightwards": "leftwards",
    "lefthand": "righthand",
    "righthand": "lefthand",
    "lefts": "rights",
    "rights": "lefts",
}
_WORDS = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, _OPPOSITE), key=len, reverse=True))})\b", re.IGNORECASE)


def mirror(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return joints ``[..., J, 3]`` reflected in x, with left and right joints swapped."""
    return joints[..., list(skeleton.mirror_order), :] * joints.new_tensor([-1.0, 1.0, 1.0])


def mirror_features(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the features of the mirrored motion.

    Exactly what `joints_to_features` gives for the mirrored joints when left and right bones have one length. On
    HumanML3D's target body, whose sides differ by up to 1 cm, mirror the joints before extracting them to keep
    its bones (as HumanML3D did for its ``M`` files).

    Args:
        features: ``[..., T, D]``, not normalised.
        skeleton: Body of the features.
    """
    check_width(features, skeleton)
    layout, order = feature_layout(skeleton), list(skeleton.mirror_order)
    rest = [joint - 1 for joint in order[1:]]
    flip = features.new_tensor([-1.0, 1.0, 1.0])
    # A rotation R becomes F R F with F = diag(-1, 1, 1): entries that touch x once change sign.
    six = features.new_tensor([1.0, -1.0, -1.0, -1.0, 1.0, 1.0])
    result = features.clone()
    result[..., layout.yaw_rate] *= -1.0
    result[..., layout.root_velocity] *= flip[:2]
    positions = features[..., layout.positions].reshape(*features.shape[:-1], -1, 3)
    result[..., layout.positions] = (positions[..., rest, :] * flip).flatten(-2)
    rotations = features[..., layout.rotations].reshape(*features.shape[:-1], -1, 6)
    result[..., layout.rotations] = (rotations[..., rest, :] * six).flatten(-2)
    velocities = features[..., layout.velocities].reshape(*features.shape[:-1], -1, 3)
    result[..., layout.velocities] = (velocities[..., order, :] * flip).flatten(-2)
    result[..., layout.contacts] = features[..., layout.contacts][..., [2, 3, 0, 1]]
    return result


def mirror_text(text: str) -> str:
    """Swap left and right, clockwise and counterclockwise in a caption, keeping a capital where there was one."""

    def swap(match: re.Match[str]) -> str:
        word = match.group()
        other = _OPPOSITE[word.lower()]
        return other.capitalize() if word[0].isupper() else other

    return _WORDS.sub(swap, text)
