"""From any rig, by the names of its joints, to the joints that features are made of, and which way a body faces."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import heading, unwrap
from motionkit.motion.clip import BODY, MAPPED
from motionkit.motion.motion import END, JointMotion, Motion
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs.detect import PERSON_LEG, UNITS, nearest_unit
from motionkit.rigs.roles import CENTRE, KIT_RIG, find_doubles, find_roles, hip_to_ankle, in_brief, joint_path, toe_of

_TRUNK_PARTS = {"pelvis": 0.115, "spine1": 0.293, "spine2": 0.4866, "spine3": 0.5642, "neck": 0.8608, "head": 1.0}
"""Places of the 22-joint body's trunk joints on the line from mid-hip to head, by the target's bones."""

_COLLAR = (0.36, 0.34)
"""A collar is spine3 + a (shoulder - spine3) + b (neck - spine3); fitted to a HumanML3D clip, within 1.5 cm."""

_ANKLE_TO_HEAD = 0.88
"""Part of a person's height from the ankle to the head joint: 0.92, near the ear, less 0.039 for the foot (Drillis and
Contini). The three CMU rigs, a Rokoko and a cgspeed one come out within 5 % of their height when they stand."""

_KIT_TRUNK = {
    "BP": (("left_hip", 0.09), ("right_hip", 0.09), ("spine1", 0.82)),
    "BT": (("spine3", 0.88), ("neck", 0.12)),
    "BLN": (("left_shoulder", 0.5), ("right_shoulder", 0.5)),
    "BUN": (("left_shoulder", 0.35), ("right_shoulder", 0.35), ("head", 0.3)),
}
"""KIT's trunk joints as weighted sums. KIT's root lies between the hips and its BLN between the shoulders, in every
published mean pose; the heights of BP, BT and BUN come from the mean poses of the two data sets."""

_MIDFOOT = (("knee", -0.04), ("ankle", 0.71), ("foot", 0.33))
"""KIT's mid-foot lies below and in front of the ankle; the shin gives the direction downwards."""

_FLAT = 1e-3
"""Horizontal length of the summed unit lines below which a body lies on its side and its front is not known."""


def to_body(motion: Motion | JointMotion, skeleton: Skeleton, fps: float) -> Tensor:
    """Resample a motion and bring it onto the joints of a feature format.

    A motion whose joints have the skeleton's names (for KIT, those of arrays or of files) keeps them as they are; any
    other rig is matched by its joints' names (`map_body`), for KIT by way of the 22-joint body (`body_to_kit`).

    Args:
        motion: The motion, in metres, Y up.
        skeleton: `HUMANML` or `KIT`.
        fps: Frames per second of the result.

    Returns:
        ``[T', J, 3]`` metres, float64.

    Example:
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> to_body(motion, KIT, KIT.fps).shape
        torch.Size([25, 21, 3])
    """
    motion = motion.resample(fps)
    positions = motion.positions().double()
    if chosen := _indices_of(motion.names, skeleton):
        return positions[:, chosen]
    if skeleton is KIT:
        return body_to_kit(_humanml(motion, positions))
    return _humanml(motion, positions)


def _indices_of(names: tuple[str, ...], skeleton: Skeleton) -> list[int]:
    """Return the indices of the skeleton's joints in `names`, empty if one is missing."""
    for joint_names in (skeleton.joint_names, KIT_RIG) if skeleton is KIT else (skeleton.joint_names,):
        if set(joint_names) <= set(names):
            return [names.index(name) for name in joint_names]
    return []


def _humanml(motion: Motion | JointMotion, positions: Tensor) -> Tensor:
    """Return the 22 joints ``[T, 22, 3]`` of any rig."""
    if chosen := _indices_of(motion.names, HUMANML):
        return positions[:, chosen]
    if _indices_of(motion.names, KIT):
        raise MotionkitError(
            "KIT's 21 joints do not become the 22-joint body.",
            why="they have no collars, and their trunk is divided differently.",
            fix="keep the KIT format (--to kit).",
        )
    body = map_body(motion.names, motion.parents, positions)
    # The motion is already in metres: the unit that map_body guesses from the legs must not scale a child up.
    joints: Tensor = torch.einsum("bj,tjc->tbc", body.weights.to(positions), positions)
    return joints


@dataclass(frozen=True)
class BodyMap:
    """How a rig becomes the 22-joint body."""

    weights: Tensor  # ``[22, J]``: each joint of the body as a weighted sum of the rig's joints
    unit: float  # Metres per unit of the rig
    unit_name: str  # That unit in words
    sources: dict[str, str]  # Role to the rig's joint name

    def apply(self, positions: Tensor) -> Tensor:
        """Return ``[T, 22, 3]`` metres from the rig's ``[T, J, 3]``."""
        return self.weights.to(positions) @ positions * self.unit


def map_body(names: Sequence[str], parents: Sequence[int], positions: Tensor) -> BodyMap:
    """Find the 22 joints in a rig by name.

    Limb joints are those of the rig. Rigs disagree about the trunk (CMU's ``Neck`` lies below the shoulders), so its
    joints are points of the line hips - spine - head at the target body's proportions, and collars follow from them,
    unless a table (`JointMap`) names spine, neck or collars.

    Args:
        names: Joint names; namespaces, case, ``Left``/``L_``/``.l`` and underscores do not matter.
        parents: Parent of each joint.
        positions: ``[T, J, 3]`` of the rig, for bone lengths and the unit.

    Example:
        >>> from motionkit.rigs.rest import rest_rig
        >>> rig = rest_rig(HUMANML)
        >>> from motionkit.geometry import positions_from_bones
        >>> body = map_body(rig.names, rig.parents, positions_from_bones(rig.offsets, rig.parents)[None])
        >>> body.unit_name, body.sources["left knee"]
        ('metres', 'left_knee')
    """
    roles = find_roles(names, parents)
    missing = [role for role in BODY if role not in roles and not role.endswith("toe")]
    for side in ("left", "right"):
        if f"{side} ankle" in roles:
            toe = toe_of(roles, parents, side)
            if toe >= 0:
                roles[f"{side} toe"] = toe
            else:
                missing.append(f"{side} toe")
    if missing:
        raise MotionkitError(
            f"the rig has no joint that looks like: {', '.join(missing)}.",
            why=f"its joints are {in_brief(name for name in names if not name.endswith(END))}.",
            fix="convert --check IN --write-joint-map FILE makes a table of names to fill in, for --joint-map.",
        )
    if doubles := find_doubles(names, parents):
        role, rivals = next(iter(doubles.items()))
        raise MotionkitError(
            f"the rig has several joints that look like: {', '.join(doubles)}.",
            why=f"{role} could be {' or '.join(rivals)}.",
            fix="name the right one in a table: --check --write-joint-map FILE, then --joint-map FILE.",
        )
    weights = torch.zeros(HUMANML.joints, len(names), dtype=torch.float64)
    for role, joint in BODY.items():
        if role not in CENTRE:
            weights[HUMANML.index(joint), roles[role]] = 1.0
    _trunk(weights, roles, parents, positions[0])
    for row, joint in enumerate(HUMANML.joint_names):
        if MAPPED + joint in names and joint not in BODY.values():
            weights[row] = 0.0
            weights[row, names.index(MAPPED + joint)] = 1.0
    leg = hip_to_ankle(roles, positions[0])
    if leg <= 0:
        raise MotionkitError("the rig's legs have no length.", why="the scale of the body is taken from them.")
    unit = UNITS[nearest_unit(leg, PERSON_LEG)]
    sources = {role: names[joint] for role, joint in roles.items()}
    return BodyMap(weights, unit.metres, unit.words, sources)


def _trunk(weights: Tensor, roles: dict[str, int], parents: Sequence[int], pose: Tensor) -> None:
    """Fill the rows of pelvis, spine, neck, head and collars."""
    points, steps = _hips_to_head(roles, parents, pose)
    ends = torch.cat([torch.zeros(1, dtype=steps.dtype), steps.cumsum(0)])
    for name, fraction in _TRUNK_PARTS.items():
        target = fraction * ends[-1]
        place = min(int((ends[1:] < target - 1e-9).sum()), len(steps) - 1)
        part = float((target - ends[place]) / steps[place].clamp_min(1e-9))
        weights[HUMANML.index(name)] = torch.lerp(points[place], points[place + 1], min(part, 1.0))
    base, neck = weights[HUMANML.index("spine3")], weights[HUMANML.index("neck")]
    for side in ("left", "right"):
        shoulder = weights[HUMANML.index(f"{side}_shoulder")]
        weights[HUMANML.index(f"{side}_collar")] = base + _COLLAR[0] * (shoulder - base) + _COLLAR[1] * (neck - base)


def _hips_to_head(roles: Mapping[str, int], parents: Sequence[int], pose: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the points of the line hips - spine - head as rows of weights ``[J]``, and the lengths between them.

    A fraction of that line's length is linear between two points.
    """
    joints = len(parents)
    hips = torch.zeros(joints, dtype=torch.float64)
    hips[[roles["left hip"], roles["right hip"]]] = 0.5
    chain = joint_path(parents, roles["head"], roles["pelvis"])
    points = [hips, *(torch.nn.functional.one_hot(torch.tensor(joint), joints).double() for joint in chain)]
    # If the hips lie above the root joint, going down to it first would fold the line.
    if len(points) > 2 and torch.dot((points[1] - hips) @ pose, (points[2] - hips) @ pose) <= 0:
        del points[1]
    return points, torch.stack([((b - a) @ pose).norm() for a, b in itertools.pairwise(points)])


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


@lru_cache(maxsize=1)
def kit_weights() -> Tensor:
    """Return ``[21, 22]`` float64: each KIT joint as a weighted sum of the 22 joints; rows sum to 1."""
    weights = torch.zeros(KIT.joints, HUMANML.joints, dtype=torch.float64)

    def put(joint: int, *terms: tuple[str, float]) -> None:
        for name, share in terms:
            weights[joint, HUMANML.index(name)] = share

    put(0, ("left_hip", 0.5), ("right_hip", 0.5))
    for name, terms in _KIT_TRUNK.items():
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


def body_height(names: Sequence[str], parents: Sequence[int], pose: Tensor) -> float:
    """Return how tall a body is when it stands upright, from its bones in any pose; 0 if they are unknown by name.

    Leg and trunk together are `_ANKLE_TO_HEAD` of a person's height, in any pose and with or without a skull.

    Args:
        names: Joint names.
        parents: Parent of each joint.
        pose: ``[J, 3]``; the result is in its unit.

    Example:
        >>> from motionkit.geometry import positions_from_bones
        >>> from motionkit.rigs.rest import rest_rig
        >>> rig = rest_rig(HUMANML)
        >>> round(body_height(rig.names, rig.parents, positions_from_bones(rig.offsets, rig.parents)), 2)
        1.77
    """
    roles = find_roles(names, parents)
    leg = hip_to_ankle(roles, pose)
    if leg <= 0 or not {"pelvis", "head"} <= roles.keys():
        return 0.0
    _, steps = _hips_to_head(roles, parents, pose.double())
    return (leg + float(steps.sum())) / _ANKLE_TO_HEAD


def body_yaw(motion: Motion | JointMotion, positions: Tensor | None = None) -> Tensor | None:
    """Return the yaw of a body over time.

    It is taken from hips and shoulders (`front_of`), or else from the turn of the root joint about the vertical axis
    relative to its rest pose.

    Args:
        motion: The motion.
        positions: ``[T, J, 3]`` metres, if they are known already.

    Returns:
        ``[T]`` radians, unwrapped: 0 is +Z, it grows towards +X. None for joints without rotations if neither hips nor
        shoulders are found by name.
    """
    yaw = None
    if isinstance(motion, Motion):
        root = motion.rotations[:, 0]
        # The turn about Y closest to R: tan(yaw) = (R_xz - R_zx) / (R_xx + R_zz).
        yaw = torch.atan2(root[:, 0, 2] - root[:, 2, 0], root[:, 0, 0] + root[:, 2, 2])
    positions = motion.positions() if positions is None else positions
    if front := front_of(positions, find_roles(motion.names, motion.parents)):
        yaw = front[0] if yaw is None else torch.where(front[1], front[0], yaw)
    return None if yaw is None else unwrap(yaw)


def front_of(positions: Tensor, roles: Mapping[str, int]) -> tuple[Tensor, Tensor] | None:
    """Return where a body faces: perpendicular to the line from its right hip and shoulder to its left ones.

    Hips and shoulders have equal weight, however wide they are, as shoulders turn with swinging arms.

    Args:
        positions: ``[T, J, 3]`` metres, Y up.
        roles: Roles to joints (`find_roles`).

    Returns:
        Yaw ``[T]`` in radians, from -pi to pi: 0 is +Z, it grows towards +X; and ``[T]``, False while the body lies
        on its side. None if neither hips nor shoulders are known.
    """
    across = None
    for joint in ("hip", "shoulder"):
        left, right = roles.get(f"left {joint}"), roles.get(f"right {joint}")
        if left is not None and right is not None:
            line = torch.nn.functional.normalize(positions[:, left] - positions[:, right], dim=-1)
            across = line if across is None else across + line
    if across is None:
        return None
    # forward = across x up = (-across_z, 0, across_x)
    forward = torch.stack([-across[:, 2], torch.zeros_like(across[:, 0]), across[:, 0]], dim=-1)
    return heading(forward), forward.norm(dim=-1) >= _FLAT
