"""Rest poses of HumanML3D's and KIT's bodies, which publish none (a T-pose facing +Z), and of SMPL without its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.errors import MotionkitError
from motionkit.motion.motion import END
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs.detect import PERSON_LEG

SMPL_COUNTS = {22: "the body", 24: "SMPL", 52: "SMPL-H", 55: "SMPL-X"}
"""SMPL's bodies by their number of joints; the first 22 are the same in all of them."""

Vector = tuple[float, float, float]

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

_BONES = {
    "BP": 80.0, "BT": 113.0, "BLN": 43.0, "BUN": 29.0, "LS": 99.0, "LE": 165.0, "LW": 144.0, "LH": 48.0, "LK": 245.0,
    "LA": 246.0, "LMrot": 30.0, "LF": 52.0,
}  # fmt: skip
"""Bone lengths in stored units; left and right are alike."""


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
