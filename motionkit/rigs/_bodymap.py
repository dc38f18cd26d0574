"""From any rig, by the names of its joints, to the joints that features are made of."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._joint_map import BODY, MAPPED
from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs._kit import KIT_RIG, body_to_kit
from motionkit.rigs._roles import CENTRE, find_doubles, find_roles
from motionkit.rigs._units import PERSON_LEG, UNITS, nearest_unit

_TRUNK_PARTS = {"pelvis": 0.115, "spine1": 0.293, "spine2": 0.4866, "spine3": 0.5642, "neck": 0.8608, "head": 1.0}
"""Where the 22-joint body's trunk joints lie on the way from between the hips to the head, by the target's bones."""

_COLLAR = (0.36, 0.34)
"""A collar is spine3 + a (shoulder - spine3) + b (neck - spine3); fitted to a HumanML3D clip, within 1.5 cm."""

_ANKLE_TO_HEAD = 0.88
"""Part of a person's height from the ankle to the head joint: 0.92, near the ear, less 0.039 for the foot (Drillis and
Contini). The three CMU rigs, a Rokoko and a cgspeed one come out within 5 % of their height when they stand."""

_LEG_BONES = (("hip", "knee"), ("knee", "ankle"))


@dataclass(frozen=True)
class BodyMap:
    """How a rig becomes the 22-joint body.

    Attributes:
        weights: ``[22, J]``: each joint of the body as a weighted sum of the rig's joints.
        unit: Metres per unit of the rig.
        unit_name: That unit in words.
        sources: Role to the rig's joint name.
    """

    weights: Tensor
    unit: float
    unit_name: str
    sources: dict[str, str]

    def apply(self, positions: Tensor) -> Tensor:
        """Return ``[T, 22, 3]`` metres from the rig's ``[T, J, 3]``."""
        return self.weights.to(positions) @ positions * self.unit


def map_body(names: Sequence[str], parents: Sequence[int], positions: Tensor) -> BodyMap:
    """Find the 22 joints in a rig by name.

    Limb joints are the rig's own. Rigs disagree about the trunk (CMU's ``Neck`` lies below the shoulders), so its
    joints are points of the line hips - spine - head at the target body's proportions, and collars follow from them.
    Where a table names spine, neck or collars (`JointMap`), they are taken as they are.

    Args:
        names: Joint names; namespaces, case, ``Left``/``L_``/``.l`` and underscores do not matter.
        parents: Parent of each joint.
        positions: ``[T, J, 3]`` of the rig, for bone lengths and the unit.

    Raises:
        MotionkitError: A needed joint is not found, or two have one name; the message lists the rig's names.

    Example:
        >>> from motionkit.rigs import rest_rig
        >>> rig = rest_rig(HUMANML)
        >>> from motionkit.geometry._kinematics import positions_from_bones
        >>> body = map_body(rig.names, rig.parents, positions_from_bones(rig.offsets, rig.parents)[None])
        >>> body.unit_name, body.sources["left knee"]
        ('metres', 'left_knee')
    """
    found = find_roles(names, parents)
    missing = [role for role in BODY if role not in found and not role.endswith("toe")]
    for side in ("left", "right"):
        toe, ankle = f"{side} toe", f"{side} ankle"
        if toe not in found and ankle in found:
            below = [joint for joint, parent in enumerate(parents) if parent == found[ankle]]
            if below:
                found[toe] = below[0]
            else:
                missing.append(toe)
    if missing:
        raise MotionkitError(
            f"the rig has no joint that looks like: {', '.join(missing)}.",
            why=f"its joints are {', '.join(name for name in names if not name.endswith(' End'))}.",
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
            weights[HUMANML.index(joint), found[role]] = 1.0
    _trunk(weights, found, parents, positions[0])
    for row, joint in enumerate(HUMANML.joint_names):
        if MAPPED + joint in names and joint not in BODY.values():
            weights[row] = 0.0
            weights[row, names.index(MAPPED + joint)] = 1.0
    leg = leg_length(found, positions[0])
    if leg <= 0:
        raise MotionkitError("the rig's legs have no length.", why="the scale of the body is taken from them.")
    unit = UNITS[nearest_unit(leg, PERSON_LEG)]
    sources = {role: names[joint] for role, joint in found.items()}
    return BodyMap(weights, unit.metres, unit.words, sources)


def _trunk(weights: Tensor, found: dict[str, int], parents: Sequence[int], pose: Tensor) -> None:
    """Fill the rows of pelvis, spine, neck, head and collars."""
    points, steps = _hips_to_head(found, parents, pose)
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


def _hips_to_head(found: Mapping[str, int], parents: Sequence[int], pose: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the points of the line hips - spine - head as rows of weights ``[J]``, and the lengths between them.

    A fraction of that line's length is linear between two points.
    """
    joints = len(parents)
    hips = torch.zeros(joints, dtype=torch.float64)
    hips[[found["left hip"], found["right hip"]]] = 0.5
    chain = joint_path(parents, found["head"], found["pelvis"])
    points = [hips, *(torch.nn.functional.one_hot(torch.tensor(joint), joints).double() for joint in chain)]
    # Where the hips sit above the root joint, going down to it first would fold the line.
    if len(points) > 2 and torch.dot((points[1] - hips) @ pose, (points[2] - hips) @ pose) <= 0:
        del points[1]
    return points, torch.stack([((b - a) @ pose).norm() for a, b in itertools.pairwise(points)])


def joint_path(parents: Sequence[int], joint: int, top: int = -1) -> list[int]:
    """Return the joints from `top` down to `joint`; from the root when `top` is not above it."""
    path = []
    while joint >= 0:
        path.append(joint)
        if joint == top:
            break
        joint = parents[joint]
    return path[::-1]


def leg_length(found: Mapping[str, int], pose: Tensor) -> float:
    """Return the mean length of the legs from hip to ankle in a pose ``[J, 3]``; 0 where a leg's joint is unknown.

    Args:
        found: Roles to joints (`find_roles`).
        pose: Places of all joints; the result is in their unit.
    """
    pieces = [(f"{side} {a}", f"{side} {b}") for side in ("left", "right") for a, b in _LEG_BONES]
    if any(a not in found or b not in found for a, b in pieces):
        return 0.0
    return sum(float((pose[found[a]] - pose[found[b]]).norm()) for a, b in pieces) / 2


def body_height(names: Sequence[str], parents: Sequence[int], pose: Tensor) -> float:
    """Return how tall a body is when it stands upright, from its bones in any pose; 0 where they are unknown by name.

    Leg and trunk are `_ANKLE_TO_HEAD` of a person's height, whatever the pose is and whether the rig has a skull.

    Args:
        names: Joint names.
        parents: Parent of each joint.
        pose: ``[J, 3]``; the result is in its unit.

    Example:
        >>> from motionkit.geometry._kinematics import positions_from_bones
        >>> from motionkit.rigs import rest_rig
        >>> rig = rest_rig(HUMANML)
        >>> round(body_height(rig.names, rig.parents, positions_from_bones(rig.offsets, rig.parents)), 2)
        1.77
    """
    found = find_roles(names, parents)
    leg = leg_length(found, pose)
    if leg <= 0 or not {"pelvis", "head"} <= found.keys():
        return 0.0
    _, steps = _hips_to_head(found, parents, pose.double())
    return (leg + float(steps.sum())) / _ANKLE_TO_HEAD


def to_body(motion: Motion | JointMotion, skeleton: Skeleton, fps: float) -> Tensor:
    """Resample a motion and bring it onto the joints of a feature format.

    A motion that has joints of the skeleton's own names (KIT's: as its arrays or as files have them) keeps them as
    they are; any other rig is matched by its joints' names (`map_body`), for KIT by way of the 22-joint body
    (`body_to_kit`).

    Args:
        motion: The motion, in metres, Y up.
        skeleton: `HUMANML` or `KIT`.
        fps: Frames per second of the result.

    Returns:
        ``[T', J, 3]`` metres, float64.

    Raises:
        MotionkitError: The rig lacks a joint, or the motion has KIT's joints and the 22-joint body is wanted.

    Example:
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> to_body(motion, KIT, KIT.fps).shape
        torch.Size([25, 21, 3])
    """
    motion = motion.resample(fps)
    positions = motion.positions().double()
    if chosen := _own(motion.names, skeleton):
        return positions[:, chosen]
    if skeleton is KIT:
        return body_to_kit(_humanml(motion, positions))
    return _humanml(motion, positions)


def _own(names: tuple[str, ...], skeleton: Skeleton) -> list[int]:
    """Return the places of the skeleton's joints among `names`, empty when one is missing."""
    for own in (skeleton.joint_names, KIT_RIG) if skeleton is KIT else (skeleton.joint_names,):
        if set(own) <= set(names):
            return [names.index(name) for name in own]
    return []


def _humanml(motion: Motion | JointMotion, positions: Tensor) -> Tensor:
    """Return the 22 joints ``[T, 22, 3]`` of any rig."""
    if chosen := _own(motion.names, HUMANML):
        return positions[:, chosen]
    if _own(motion.names, KIT):
        raise MotionkitError(
            "KIT's 21 joints do not become the 22-joint body.",
            why="they have no collars, and their trunk is divided in another way.",
            fix="keep the KIT format (--to kit).",
        )
    body = map_body(motion.names, motion.parents, positions)
    # The motion is in metres already: the unit that map_body guesses from the legs must not scale a child up.
    joints: Tensor = torch.einsum("bj,tjc->tbc", body.weights.to(positions), positions)
    return joints
