"""Rigs that motions are retargeted to: those of Mixamo, Unreal, VRM and SMPL by name, in their rest poses.

Names, tree and rest pose are those of each rig; no file of theirs is used. Their publishers fix no body size, so the
lengths are those of an average adult: segments in parts of the stature (Drillis and Contini, Body Segment Parameters,
1966, as in figure 4.1 of Winter, Biomechanics and Motor Control of Human Movement, 2009): ankle at 0.039 of it, knee at
0.285, hip at 0.530, shoulder at 0.818, eyes at 0.936; upper arm 0.186, forearm 0.146, hand 0.108, foot 0.152, shoulders
0.259 wide. The joints of spine, neck and collars between are our choice. Fingers and faces are left out: no motion here
has them, and programs keep joints that an animation does not name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import torch
from torch import Tensor

from motionkit.geometry import bones_from_positions
from motionkit.motion.motion import Motion
from motionkit.rigs.rest import default_rest, lowest, smpl_joints

RigName = Literal["mixamo", "unreal", "vrm", "smpl"]
NAMES: tuple[RigName, ...] = get_args(RigName)

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Rig:
    """A skeleton in its rest pose, in which all rotations are the identity; it compares by value and pickles.

    Example:
        >>> rig = named_rig("vrm")
        >>> rig.names[:3], round(rig.offsets[0][1], 2)
        (('hips', 'spine', 'chest'), 0.94)
    """

    label: str  # What it is called in messages
    names: tuple[str, ...]  # Joint names as they are written
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    offsets: tuple[Vector, ...]  # Metres from the parent, the root's its place; Y up
    known: tuple[str, ...] = ()  # Names from a table to find the body by; empty for `names`
    turns: tuple[tuple[float, ...], ...] = ()  # Rotations of the pose taken as rest, nine numbers a joint; empty: none
    model: str = ""  # GLB file whose meshes it moves

    @property
    def roles(self) -> tuple[str, ...]:
        """The names to find the body by."""
        return self.known or self.names

    def pose(self) -> Motion:
        """Return the rest pose as a motion of one frame, with the names of `roles`."""
        offsets = torch.tensor(self.offsets, dtype=torch.float64)
        eye = torch.eye(3, dtype=torch.float64).expand(1, len(self.names), 3, 3)
        turns = torch.tensor(self.turns, dtype=torch.float64).view(1, -1, 3, 3) if self.turns else eye
        return Motion(self.roles, self.parents, offsets, turns.clone(), offsets[None], 30.0)


_HEIGHT = 0.80
"""Height of the arms of a T-pose: the joint lies slightly below the shoulder's 0.818."""

_BODY: dict[str, Vector] = {
    "pelvis": (0.0, 0.550, 0.0),
    "spine1": (0.0, 0.605, -0.005),
    "spine2": (0.0, 0.665, -0.005),
    "spine3": (0.0, 0.730, -0.005),
    "neck": (0.0, 0.830, 0.0),
    "head": (0.0, 0.885, 0.010),
    "top": (0.0, 1.0, 0.010),
    "collar": (0.020, 0.795, 0.0),
    "shoulder": (0.110, _HEIGHT, 0.0),
    "elbow": (0.110 + 0.186, _HEIGHT, 0.0),
    "wrist": (0.110 + 0.186 + 0.146, _HEIGHT, 0.0),
    "hip": (0.052, 0.530, 0.0),
    "knee": (0.052, 0.285, 0.005),
    "ankle": (0.052, 0.039, -0.010),
    "toe": (0.052, 0.010, 0.060),
    "tip": (0.052, 0.010, 0.103),
}
"""Joints of the T-pose in parts of the stature, on the left side: +X is left, +Z ahead."""

_TRUNK = ("pelvis", "spine1", "spine2", "spine3", "neck", "head", "top")
_ARM = ("collar", "shoulder", "elbow", "wrist")
_LEG = ("hip", "knee", "ankle", "toe", "tip")


def named_rig(name: RigName) -> Rig:
    """Return a rig by its name.

    - ``mixamo``: names with the prefix that Mixamo's files have, 1.80 m, T-pose. Source: the joints that any download
      of mixamo.com has.
    - ``unreal``: UE5's mannequin, ``root`` on the ground, 1.80 m, arms lowered by 45 degrees. Source: Epic's
      documentation of the skeleton of Manny and Quinn.
    - ``vrm``: names of VRM 1.0's humanoid bones, 1.70 m, T-pose. Source: specification/VRMC_vrm-1.0/humanoid.md of
      vrm-c/vrm-specification.
    - ``smpl``: SMPL's 24 joints in its zero pose. Source: Loper et al., SMPL, 2015; the lengths are HumanML3D's target
      (`default_rest`).
    """
    return _named()[name]


@lru_cache(maxsize=1)
def _named() -> Mapping[RigName, Rig]:
    return {"mixamo": _mixamo(), "unreal": _unreal(), "vrm": _vrm(), "smpl": _smpl()}


def _mixamo() -> Rig:
    trunk = ("Hips", "Spine", "Spine1", "Spine2", "Neck", "Head", "HeadTop_End")
    arm = ("Shoulder", "Arm", "ForeArm", "Hand")
    leg = ("UpLeg", "Leg", "Foot", "ToeBase", "Toe_End")
    return _built("mixamo", 1.80, [f"mixamorig:{name}" for name in trunk], "Spine2", arm, leg, "mixamorig:{side}{name}")


def _vrm() -> Rig:
    trunk = ("hips", "spine", "chest", "upperChest", "neck", "head")
    arm = ("Shoulder", "UpperArm", "LowerArm", "Hand")
    leg = ("UpperLeg", "LowerLeg", "Foot", "Toes")
    return _built("vrm", 1.70, trunk, "upperChest", arm, leg, "{small}{name}")


def _unreal() -> Rig:
    trunk = ("pelvis", "spine_01", "spine_02", "spine_03", "spine_04", "spine_05", "neck_01", "neck_02", "head")
    arm = ("clavicle", "upperarm", "lowerarm", "hand")
    leg = ("thigh", "calf", "foot", "ball")
    places = [_BODY["pelvis"], *_between("spine1", "spine3", 5), *_between("neck", "head", 3)]
    rig = _built("unreal", 1.80, trunk, "spine_05", arm, leg, "{name}_{letter}", places=places, lowered=45.0)
    names = ("root", *rig.names)
    parents = (-1, *(parent + 1 for parent in rig.parents))
    return Rig("unreal", names, parents, ((0.0, 0.0, 0.0), *rig.offsets))


def _between(first: str, last: str, count: int) -> list[Vector]:
    """Return `count` places from one joint to another, both included, evenly apart."""
    start, end = _BODY[first], _BODY[last]
    parts = [step / (count - 1) for step in range(count)]
    return [(0.0, start[1] + part * (end[1] - start[1]), start[2] + part * (end[2] - start[2])) for part in parts]


def _built(
    label: str,
    stature: float,
    trunk: Sequence[str],
    chest: str,
    arm: Sequence[str],
    leg: Sequence[str],
    form: str,
    *,
    places: Sequence[Vector] | None = None,
    lowered: float = 0.0,
) -> Rig:
    """Build a rig of trunk, arms on the chest and legs on the pelvis.

    Args:
        label: Its name.
        stature: Metres from the ground to the top of the head.
        trunk: Names from the hips up.
        chest: End of the name of the joint that carries the arms.
        arm: Names from the collar on.
        leg: Names from the hip on.
        form: How a sided name is made of ``{side}`` (Left), ``{small}`` (left), ``{letter}`` (l) and ``{name}``.
        places: Of the trunk, in parts of the stature; None for those of `_TRUNK`.
        lowered: Degrees by which the arms are lower than in a T-pose.
    """
    names, parents, points = list(trunk), list(range(-1, len(trunk) - 1)), list(places or [_BODY[k] for k in _TRUNK])
    points = points[: len(trunk)]
    base = next(index for index, name in enumerate(trunk) if name.endswith(chest))
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        for top, words, keys in ((base, arm, _ARM), (0, leg, _LEG)):
            above = top
            for name, key in zip(words, keys, strict=False):
                x, y, z = _lowered(key, lowered)
                names.append(form.format(side=side, small=side.lower(), letter=side[0].lower(), name=name))
                parents.append(above)
                points.append((sign * x, y, z))
                above = len(names) - 1
    scaled = stature * torch.tensor(points, dtype=torch.float64)
    return Rig(label, tuple(names), tuple(parents), _offsets(scaled, parents))


def _lowered(key: str, degrees: float) -> Vector:
    """Return the place of a joint with the arms lowered about the shoulder."""
    x, y, z = _BODY[key]
    if key not in ("elbow", "wrist"):
        return x, y, z
    shoulder, angle = _BODY["shoulder"], math.radians(degrees)
    out = x - shoulder[0]
    return shoulder[0] + out * math.cos(angle), y - out * math.sin(angle), z


def _smpl() -> Rig:
    names, parents = smpl_joints(24)
    rest = default_rest()
    hands = torch.tensor([[0.08, 0.0, 0.0], [-0.08, 0.0, 0.0]], dtype=torch.float64)
    offsets = torch.cat([rest, hands])
    offsets[0] = torch.tensor([0.0, -lowest(offsets, parents), 0.0], dtype=torch.float64)
    return Rig("smpl", names, parents, tuple(tuple(row) for row in offsets.tolist()))


def _offsets(points: Tensor, parents: Sequence[int]) -> tuple[Vector, ...]:
    rows: list[list[float]] = bones_from_positions(points, parents).tolist()
    return tuple((x, y, z) for x, y, z in rows)
