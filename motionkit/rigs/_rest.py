"""Rest poses of HumanML3D's and KIT's bodies, which publish none: a T-pose facing +Z, as Blender and Unity use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._motion import END
from motionkit.motion._skeleton import HUMANML, Skeleton
from motionkit.rigs._kit import kit_bones
from motionkit.rigs._units import PERSON_LEG

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class RestRig:
    """A skeleton in its rest pose: what a `Motion` moves.

    Attributes:
        names: J joint names, the root first, each parent before its children; ``<parent> End`` is an end site.
        parents: Parent of each joint, -1 for the root.
        offsets: ``[J, 3]`` float64 metres from the parent while every rotation is the identity; the root's is its
            place in the world. Y up, facing +Z.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
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
"""Which way each joint of the 22 lies from its parent in the T-pose; the other side is the mirror image."""

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

    Raises:
        MotionkitError: `bones` are not J finite lengths.

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
    offsets[0, 1] = -min(float(height) for height in _heights(offsets, parents))
    return RestRig(tuple(names), tuple(parents), offsets)


def _lengths(skeleton: Skeleton, bones: Sequence[float] | Tensor | None) -> Tensor:
    """Return ``[J]`` float64 bone lengths."""
    if bones is None:
        if skeleton.target_offsets is None:
            return kit_bones()
        known: Tensor = torch.tensor(skeleton.target_offsets, dtype=torch.float64).norm(dim=-1)
        return known
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


def _heights(offsets: Tensor, parents: Sequence[int]) -> list[float]:
    """Return the height of every joint above the root in the rest pose."""
    heights = [0.0]
    for joint, parent in enumerate(parents[1:], start=1):
        heights.append(heights[parent] + float(offsets[joint, 1]))
    return heights
