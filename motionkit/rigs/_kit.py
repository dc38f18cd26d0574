"""From the 22-joint body to KIT-ML's 21 joints, and the bones its features are made with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from motionkit.motion._motion import END
from motionkit.motion._skeleton import HUMANML, KIT

_TRUNK = {
    "BP": (("left_hip", 0.09), ("right_hip", 0.09), ("spine1", 0.82)),
    "BT": (("spine3", 0.88), ("neck", 0.12)),
    "BLN": (("left_shoulder", 0.5), ("right_shoulder", 0.5)),
    "BUN": (("left_shoulder", 0.35), ("right_shoulder", 0.35), ("head", 0.3)),
}
"""KIT's trunk joints as weighted sums. KIT's root lies between the hips and its BLN between the shoulders, in every
published mean pose; how far up BP, BT and BUN are is read from the mean poses of the two data sets."""

_MIDFOOT = (("knee", -0.04), ("ankle", 0.71), ("foot", 0.33))
"""KIT's mid-foot lies below and before the ankle; the shin gives the direction of below."""

_SIDES = {"L": "right", "R": "left"}
_PARTS = {
    "S": "shoulder",
    "E": "elbow",
    "W": "wrist",
    "H": "hip",
    "K": "knee",
    "A": "ankle",
    "Mrot": "midfoot",
    "F": "foot",
}

KIT_RIG = tuple(
    f"{_SIDES[name[0]]}_{_PARTS[name[1:]]}" if name[0] in _SIDES and name[1:] in _PARTS else name
    for name in KIT.joint_names
)
"""KIT's joints as a skeleton calls them that other programs open, in KIT's order: by the side they are on.

In public KIT features a body that faces +Z (its toes and knees point there) has joints 5-7 and 11-15 at negative x:
they are its right arm and leg, as in HumanML3D's code. The body model behind them calls them ``LS`` to ``LW``, ``LH``
to ``LF``. Arrays keep those names and their order; skeletons in files name the true side."""

_BONES = {
    "BP": 80.0, "BT": 113.0, "BLN": 43.0, "BUN": 29.0, "LS": 99.0, "LE": 165.0, "LW": 144.0, "LH": 48.0, "LK": 245.0,
    "LA": 246.0, "LMrot": 30.0, "LF": 52.0,
}  # fmt: skip
"""Bone lengths in stored units; left and right are alike."""


def rig_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return what a skeleton calls its joints, where they are KIT's in KIT's order and end sites after them.

    Args:
        names: Joint names; those of any other skeleton come back as they are.
    """
    if tuple(names[: KIT.joints]) != KIT.joint_names:
        return tuple(names)
    plain = dict(zip(KIT.joint_names, KIT_RIG, strict=True))
    joints = [name.removesuffix(END) for name in names]
    return tuple(plain.get(joint, joint) + name[len(joint) :] for joint, name in zip(joints, names, strict=True))


@lru_cache(maxsize=1)
def kit_weights() -> Tensor:
    """Return ``[21, 22]`` float64: each KIT joint as a weighted sum of the 22 joints; rows sum to 1."""
    weights = torch.zeros(KIT.joints, HUMANML.joints, dtype=torch.float64)

    def put(joint: int, *terms: tuple[str, float]) -> None:
        for name, share in terms:
            weights[joint, HUMANML.index(name)] = share

    put(0, ("left_hip", 0.5), ("right_hip", 0.5))
    for name, terms in _TRUNK.items():
        put(KIT.index(name), *terms)
    right_hip, left_hip, right_shoulder, left_shoulder = KIT.face_joints
    for side, hip, shoulder in (("left", left_hip, left_shoulder), ("right", right_hip, right_shoulder)):
        for place, part in enumerate(("shoulder", "elbow", "wrist")):
            put(shoulder + place, (f"{side}_{part}", 1.0))
        for place, part in enumerate(("hip", "knee", "ankle")):
            put(hip + place, (f"{side}_{part}", 1.0))
        put(hip + 3, *((f"{side}_{part}", share) for part, share in _MIDFOOT))
        put(hip + 4, (f"{side}_foot", 1.0))
    return weights


def body_to_kit(joints: Tensor) -> Tensor:
    """Return KIT's 21 joints of a 22-joint body.

    The pose stays what it is: a right hand stays a right hand, and goes where public KIT features have theirs
    (`KIT_RIG`).

    Args:
        joints: ``[..., 22, 3]`` metres.

    Returns:
        ``[..., 21, 3]`` metres.
    """
    mapped: Tensor = kit_weights().to(joints) @ joints
    return mapped


def kit_bones() -> Tensor:
    """Return target bone lengths for KIT features, ``[21]`` float64 metres.

    KIT-ML publishes no bones. These are those of the body in its public features, estimated from their mean pose: a
    person 1000 units tall, so that features made with them lie where Mean, Std and released networks expect them.
    """
    lengths = torch.zeros(KIT.joints, dtype=torch.float64)
    for name, length in _BONES.items():
        joint = KIT.index(name)
        lengths[[joint, KIT.mirror_order[joint]]] = length * KIT.unit
    return lengths
