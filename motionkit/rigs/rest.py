"""Rest poses of HumanML3D's and KIT's bodies, which publish none: a T-pose facing +Z, as Blender and Unity use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.errors import MotionkitError
from motionkit.motion.motion import END
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton

# From the 22-joint body to KIT-ML's 21 joints, and the bones its features are made with.


_TRUNK = {
    "BP": (("left_hip", 0.09), ("right_hip", 0.09), ("spine1", 0.82)),
    "BT": (("spine3", 0.88), ("neck", 0.12)),
    "BLN": (("left_shoulder", 0.5), ("right_shoulder", 0.5)),
    "BUN": (("left_shoulder", 0.35), ("right_shoulder", 0.35), ("head", 0.3)),
}
"""KIT's trunk joints as weighted sums. KIT's root lies between the hips and its BLN between the shoulders, in every
published mean pose; the heights of BP, BT and BUN come from the mean poses of the two data sets."""

_MIDFOOT = (("knee", -0.04), ("ankle", 0.71), ("foot", 0.33))
"""KIT's mid-foot lies below and in front of the ankle; the shin gives the direction downwards."""

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
"""KIT's joints in KIT's order, named by the side they are on: for skeletons that other programs open.

In public KIT features a body that faces +Z (its toes and knees point there) has joints 5-7 and 11-15 at negative x:
they are its right arm and leg, as in HumanML3D's code. KIT's body model calls them ``LS`` to ``LW``, ``LH`` to ``LF``.
Arrays keep those names and their order; skeletons in files name the true side."""

_BONES = {
    "BP": 80.0, "BT": 113.0, "BLN": 43.0, "BUN": 29.0, "LS": 99.0, "LE": 165.0, "LW": 144.0, "LH": 48.0, "LK": 245.0,
    "LA": 246.0, "LMrot": 30.0, "LF": 52.0,
}  # fmt: skip
"""Bone lengths in stored units; left and right are alike."""


def rig_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return a skeleton's joint names by their true side if they are KIT's in KIT's order, then end sites.

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

    The pose is not mirrored: a right hand stays a right hand, at the index of public KIT features (`KIT_RIG`).

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


# Units of length that motion files come in.


class LengthUnit(NamedTuple):
    """A unit of length."""

    words: str  # Its name
    metres: float  # Metres per unit
    aliases: tuple[str, ...] = ()  # Other names in files, in lower case


UNITS = {
    "m": LengthUnit("metres", 1.0, ("meters", "meter", "metre")),
    "dm": LengthUnit("decimetres", 0.1, ("decimeters", "decimeter", "decimetre")),
    "asf": LengthUnit("ASF units", 0.0254 / 0.45),
    "in": LengthUnit("inches", 0.0254, ("inch",)),
    "cm": LengthUnit("centimetres", 0.01, ("centimeters", "centimeter", "centimetre")),
    "mm": LengthUnit("millimetres", 0.001, ("millimeters", "millimeter", "millimetre")),
}
"""By abbreviation. CMU's ASF files, and the BVH files made from them, measure in inches of a body at 0.45 scale."""

_NO_MORE: Mapping[str, LengthUnit] = {}

PERSON_LEG = 0.82
"""Metres from hip to ankle along the leg of an adult, to guess units by."""


def unit_called(name: str) -> LengthUnit | None:
    """Return the unit with a name, in any usual spelling and case; None if unknown."""
    word = name.strip().lower()
    return next((unit for short, unit in UNITS.items() if word in (short, unit.words.lower(), *unit.aliases)), None)


def nearest_unit(length: float, metres: float, more: Mapping[str, LengthUnit] = _NO_MORE) -> str:
    """Return the unit in which a length that is about `metres` long is written as `length` (more than 0)."""
    units = {**UNITS, **more}
    return min(units, key=lambda name: abs(math.log(length * units[name].metres / metres)))


Vector = tuple[float, float, float]


@dataclass(frozen=True)
class RestRig:
    """A skeleton in its rest pose."""

    # J joint names, the root first, each parent before its children; ``<parent> End`` is an end site.
    names: tuple[str, ...]
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    # ``[J, 3]`` float64 metres from the parent if all rotations are the identity; the root's is its place in the world.
    # Y up, facing +Z.
    offsets: Tensor

    @property
    def joints(self) -> int:
        """Number of joints J."""
        return len(self.parents)


_HUMANML: dict[str, Vector] = {
    "left_hip": (0.62, -0.78, 0.0),
    "left_knee": (0.0, -1.0, 0.0),
    "left_ankle": (0.0, -1.0, 0.0),
    "left_foot": (0.0, -0.4, 0.92),
    "spine1": (0.0, 1.0, -0.1),
    "spine2": (0.0, 1.0, 0.0),
    "spine3": (0.0, 1.0, 0.1),
    "neck": (0.0, 1.0, -0.1),
    "head": (0.0, 0.88, 0.47),
    "left_collar": (0.57, 0.8, -0.15),
    "left_shoulder": (0.97, 0.22, -0.06),
    "left_elbow": (1.0, 0.0, 0.0),
    "left_wrist": (1.0, 0.0, 0.0),
    "left_foot End": (0.0, 0.0, 1.0),
    "head End": (0.0, 1.0, 0.0),
    "left_wrist End": (1.0, 0.0, 0.0),
}
"""Direction of each joint of the 22 from its parent in the T-pose; the other side is the mirror image."""

_KIT: dict[str, Vector] = {
    "BP": (0.0, 1.0, 0.0),
    "BT": (0.0, 1.0, 0.0),
    "BLN": (0.0, 1.0, 0.0),
    "BUN": (0.0, 0.8, 0.6),
    "LS": (-1.0, 0.0, 0.0),
    "LE": (-1.0, 0.0, 0.0),
    "LW": (-1.0, 0.0, 0.0),
    "LH": (-1.0, 0.0, 0.0),
    "LK": (0.0, -1.0, 0.0),
    "LA": (0.0, -1.0, 0.0),
    "LMrot": (0.0, -0.78, 0.62),
    "LF": (0.0, -0.45, 0.9),
    "LF End": (0.0, 0.0, 1.0),
    "BUN End": (0.0, 1.0, 0.0),
    "LW End": (-1.0, 0.0, 0.0),
}
"""The same for the 21 joints of KIT-ML. Despite their names, joints 5-7 and 11-15 are on the right-hand side
(-X) of a body that faces +Z: so they are in the public features (their mean pose), and so HumanML3D's code has it."""

_TIPS = {"left_foot": 0.06, "head": 0.17, "left_wrist": 0.16, "LF": 0.05, "BUN": 0.2, "LW": 0.16}
"""Metres of hands, toes and head of a body whose legs are `PERSON_LEG` long."""


def rest_rig(skeleton: Skeleton, bones: Sequence[float] | Tensor | None = None) -> RestRig:
    """Return the T-pose of a body: facing +Z, its lowest joint on y = 0, with end sites for head, hands and toes.

    Its joints come in the order of `skeleton`, so that joint j of features is joint j of the rig; the end sites follow.

    Args:
        skeleton: HUMANML or KIT.
        bones: ``[J]`` length of each joint's bone in metres (the root's is not used); None takes the skeleton's
            target, or `kit_bones` for KIT, which publishes none.

    Example:
        >>> rig = rest_rig(HUMANML)
        >>> rig.joints, rig.names[-1]
        (27, 'right_wrist End')
    """
    directions = _HUMANML if skeleton.name == HUMANML.name else _KIT
    lengths = _lengths(skeleton, bones)
    scale = max(float(lengths[list(skeleton.leg_joints)].sum()) / PERSON_LEG, 1e-3)
    names, parents = list(skeleton.joint_names), list(skeleton.parents)
    offsets = torch.zeros(skeleton.joints, 3, dtype=torch.float64)
    for joint in range(1, skeleton.joints):
        offsets[joint] = _direction(skeleton, directions, joint, "") * lengths[joint]
    ends = []
    for joint in range(skeleton.joints):
        if joint not in skeleton.parents:
            tip = _TIPS[skeleton.joint_names[_left_of(skeleton, joint)]] * scale
            ends.append(_direction(skeleton, directions, joint, END) * tip)
            names.append(skeleton.joint_names[joint] + END)
            parents.append(joint)
    offsets = torch.cat([offsets, torch.stack(ends)])
    offsets[0, 1] = -lowest(offsets, parents)
    return RestRig(tuple(names), tuple(parents), offsets)


def _lengths(skeleton: Skeleton, bones: Sequence[float] | Tensor | None) -> Tensor:
    """Return ``[J]`` float64 bone lengths."""
    if bones is None:
        if skeleton.target_offsets is None:
            return kit_bones()
        target: Tensor = torch.tensor(skeleton.target_offsets, dtype=torch.float64).norm(dim=-1)
        return target
    lengths = torch.as_tensor(bones, dtype=torch.float64).detach().cpu()
    if lengths.shape != (skeleton.joints,) or not bool(torch.isfinite(lengths).all() and (lengths >= 0).all()):
        raise MotionkitError(
            f"bones must be {skeleton.joints} lengths in metres, one for each joint of the {skeleton.name} body.",
            why=f"got values of shape {list(lengths.shape)}.",
        )
    return lengths


def _left_of(skeleton: Skeleton, joint: int) -> int:
    """Return the left twin of a right joint, and any other joint itself."""
    return next((left for left, right in skeleton.mirror_pairs if right == joint), joint)


def _direction(skeleton: Skeleton, directions: dict[str, Vector], joint: int, tail: str) -> Tensor:
    """Return the unit direction of a joint, or of its end site."""
    left = _left_of(skeleton, joint)
    direction = torch.tensor(directions[skeleton.joint_names[left] + tail], dtype=torch.float64)
    if left != joint:
        direction = direction * torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)
    unit: Tensor = direction / direction.norm()
    return unit


def lowest(offsets: Tensor, parents: Sequence[int]) -> float:
    """Return the height of the lowest joint in the rest pose, relative to the root."""
    heights = [0.0]
    for joint, parent in enumerate(parents[1:], start=1):
        heights.append(heights[parent] + float(offsets[joint, 1]))
    return min(heights)


# SMPL's joints, of which HumanML3D's are the first 22, and a default rest pose that needs no licensed file.


SMPL_COUNTS = {22: "the body", 24: "SMPL", 52: "SMPL-H", 55: "SMPL-X"}
"""SMPL's bodies by their number of joints; the first 22 are the same in all of them."""

_FINGERS = tuple(f"{finger}{part}" for finger in ("index", "middle", "pinky", "ring", "thumb") for part in (1, 2, 3))

_DIRECTIONS = {
    "hip": (0.58, -0.81, -0.05),
    "knee": (0.1, -0.99, -0.02),
    "ankle": (-0.04, -0.99, -0.11),
    "foot": (0.19, -0.39, 0.9),
    "spine1": (0.0, 0.97, -0.24),
    "spine2": (0.0, 1.0, 0.01),
    "spine3": (0.0, 0.9, 0.43),
    "neck": (0.0, 0.98, -0.2),
    "head": (0.0, 0.78, 0.62),
    "collar": (0.54, 0.81, -0.24),
    "shoulder": (0.94, 0.32, -0.09),
    "elbow": (0.99, -0.05, -0.1),
    "wrist": (1.0, 0.03, -0.01),
}
"""Direction of each bone while all of SMPL's rotations are zero (arms sideways, facing +Z, left at +X); the right side
is the mirror image. Rounded, as people differ by a few degrees here."""

_PELVIS = (0.0, -0.22, 0.03)
"""Place of SMPL's pelvis in its model space, where ``trans`` is zero."""


def smpl_joints(count: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return names and parents of a body with `count` joints, a key of `SMPL_COUNTS`."""
    names, parents = list(HUMANML.joint_names), list(HUMANML.parents)
    wrists = {side: HUMANML.index(f"{side}_wrist") for side in ("left", "right")}
    if count == 24:
        names += ["left_hand", "right_hand"]
        parents += [wrists["left"], wrists["right"]]
    if count == 55:
        names += ["jaw", "left_eye", "right_eye"]
        parents += [HUMANML.index("head")] * 3
    if count in (52, 55):
        for side in ("left", "right"):
            for finger in _FINGERS:
                names.append(f"{side}_{finger}")
                parents.append(wrists[side] if finger.endswith("1") else len(names) - 2)
    return tuple(names), tuple(parents)


@lru_cache(maxsize=1)
def default_rest() -> Tensor:
    """Return a body in SMPL's rest pose: ``[22, 3]`` float64 metres from each joint's parent.

    HumanML3D's target bone lengths in the directions of SMPL's rest pose; row 0 is the place of the pelvis.
    """
    rest = torch.zeros(HUMANML.joints, 3, dtype=torch.float64)
    lengths = torch.tensor(HUMANML.target_offsets, dtype=torch.float64).norm(dim=-1)
    for joint, name in enumerate(HUMANML.joint_names[1:], start=1):
        direction = torch.tensor(_DIRECTIONS[name.split("_")[-1]], dtype=torch.float64)
        if name.startswith("right_"):
            direction = direction * direction.new_tensor([-1.0, 1.0, 1.0])
        rest[joint] = functional.normalize(direction, dim=0) * lengths[joint]
    rest[0] = rest.new_tensor(_PELVIS)
    return rest
