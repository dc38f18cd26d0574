"""From any rig, by the names of its joints, to the joints that features are made of."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import heading, unwrap
from motionkit.motion.clip import BODY, MAPPED
from motionkit.motion.motion import END, JointMotion, Motion
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs.rest import KIT_RIG, PERSON_LEG, UNITS, body_to_kit, nearest_unit, rig_names

# Hips, knees, wrists and other joints of a person in a rig, found by their names in any program's spelling.


SIDED = {
    "hip": ("upleg", "thigh", "upperleg", "femur", "hip", "leg", "足"),
    "knee": ("leg", "shin", "lowerleg", "calf", "tibia", "knee", "lowleg", "ひざ", "膝"),
    "ankle": ("ankle", "foot", "足首"),
    "toe": ("toebase", "toe", "toes", "ball", "foot", "つま先"),
    "shoulder": ("arm", "upperarm", "uparm", "uarm", "shldr", "humerus", "shoulder", "腕"),
    "elbow": ("forearm", "lowerarm", "lowarm", "farm", "elbow", "radius", "ひじ", "肘"),
    "wrist": ("wrist", "hand", "手首"),
}
"""Names of each sided joint without its side, the most certain first: ``LeftShoulder`` is a collar if there is a
``LeftArm``, else the shoulder; ``LeftFoot`` is the toe if there is a ``LeftAnkle``. The Japanese names are
MikuMikuDance's."""

CENTRE = {"pelvis": ("hips", "pelvis", "hip", "root", "腰", "センター"), "head": ("head", "頭")}

_ABOVE = {"knee": "hip", "ankle": "knee", "toe": "ankle", "elbow": "shoulder", "wrist": "elbow"}
"""The joint of the same limb that must be further up."""

_SIDES = {"left": "left", "l": "left", "right": "right", "r": "right"}
_SHORT = re.compile(f"([lr])({'|'.join(sorted({alias for aliases in SIDED.values() for alias in aliases}))})")
"""Sides as Poser and CMU write them, all in lower case: ``lfemur``, ``rshldr``."""

_PREFIX = re.compile(
    r"^(Character\d*|Bip\d*|J_Bip|mixamorig\d*|CC_Base|def|DEF|b|[mf]_avg)[_\s-]+|^mixamorig\d*(?=[A-Z])"
)
_SAYS_NOTHING = ("joint", "jnt", "jt", "bone", "bend", "stretch")
_MIDDLE = ("c", "m", "x")
"""Marks of joints on neither side: ``Root_M``, Auto-Rig Pro's ``root.x``."""
_SHARED = 0.7
"""Part of the joints that must share a prefix for it to be the name of the figure: ``Actor01_Hips``."""


def find_roles(names: Sequence[str], parents: Sequence[int]) -> dict[str, int]:
    """Match roles (``pelvis``, ``head``, ``left hip``, ..., ``right wrist``) to joints, those that are found.

    The first alias that any joint has wins; of several joints with one name, the one in the right limb.

    Args:
        names: Joint names; namespaces, case, ``Left``/``L_``/``.l``, underscores and a prefix with the name of the
            figure do not matter. Joints named by a table (`JointMap`) have the roles that it gives. KIT's joints are
            taken by the side they are on (`rig_names`).
        parents: Parent of each joint.
    """
    return dict(_match(rig_names(names), tuple(parents))[0])


def find_pairs(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of joints, left and right, whose names differ only in their side; end sites included."""
    sides: dict[tuple[str, str], list[int]] = {}
    for joint, name in _plain([name.removesuffix(END) for name in rig_names(names)]):
        side, base = _normalise(name)
        sides.setdefault((side, base + END * names[joint].endswith(END)), []).append(joint)
    return [
        (joints[0], twins[0])
        for (side, base), joints in sides.items()
        if side == "left" and len(joints) == 1 and len(twins := sides.get(("right", base), [])) == 1
    ]


def find_doubles(names: Sequence[str], parents: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Return the roles that two joints of one name fit equally well, with the names."""
    return dict(_match(tuple(names), tuple(parents))[1])


@lru_cache(maxsize=64)
def _match(names: tuple[str, ...], parents: tuple[int, ...]) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """Return roles to joints, and the ambiguous roles with the names of their candidates."""
    exact: dict[tuple[str, str], list[int]] = {}
    loose: dict[tuple[str, str], list[int]] = {}
    for joint, name in _plain(names):
        side, base = _normalise(name)
        exact.setdefault((side, base), []).append(joint)
        if base[-1:].isdigit():
            loose.setdefault((side, base.rstrip("0123456789")), []).append(joint)
    roles = {role: names.index(MAPPED + joint) for role, joint in BODY.items() if MAPPED + joint in names}
    doubles: dict[str, tuple[str, ...]] = {}
    searches = [("", role, aliases) for role, aliases in CENTRE.items()]
    searches += [(side, role, aliases) for side in ("left", "right") for role, aliases in SIDED.items()]
    for side, role, aliases in searches:
        if f"{side} {role}".strip() in roles:
            continue
        top = roles.get(f"{side} {_ABOVE.get(role)}")
        for table, inside in ((exact, True), (exact, False), (loose, True)):
            keys = ((side, alias) for alias in aliases)
            joints = next(_fitting(table, keys, set(roles.values()), top if inside else None, parents), None)
            if joints:
                key = f"{side} {role}".strip()
                roles[key] = joints[0]
                rivals = [joint for joint in joints if not is_below(joint, joints[0], parents)]
                if rivals and table is exact:
                    doubles[key] = tuple(names[joint] for joint in (joints[0], *rivals))
                break
    if "pelvis" not in roles and -1 in parents:
        roles["pelvis"] = parents.index(-1)
    return roles, doubles


def _fitting(
    table: dict[tuple[str, str], list[int]],
    keys: Iterator[tuple[str, str]],
    taken: set[int],
    top: int | None,
    parents: Sequence[int],
) -> Iterator[list[int]]:
    """Yield, alias by alias, the joints that are free and below `top`."""
    for key in keys:
        joints = [
            joint
            for joint in table.get(key, ())
            if joint not in taken and (top is None or is_below(joint, top, parents))
        ]
        if joints:
            yield joints


def is_below(joint: int, top: int, parents: Sequence[int]) -> bool:
    """Return whether a joint is another one or hangs on it."""
    while joint >= 0:
        if joint == top:
            return True
        joint = parents[joint]
    return False


def _plain(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield joints with their names, without namespaces and without the prefix that most names share."""
    short = {joint: re.split(r"[:|]", name)[-1] for joint, name in enumerate(names) if not name.endswith(END)}
    starts = Counter(
        name[: match.end()] for name in short.values() for match in re.finditer(r"[_\s.-]+", name) if match.start()
    )
    shared = [start for start, count in starts.items() if count >= max(5, _SHARED * len(short))]
    prefix = max(shared, key=len, default="")
    for joint, name in short.items():
        yield joint, _PREFIX.sub("", name.removeprefix(prefix))


def _normalise(name: str) -> tuple[str, str]:
    """Split a joint name into side and the rest: ``LeftUpLeg`` and ``upleg.L`` become (left, upleg)."""
    # Readers write "Hand 2" for the second joint that a file calls "Hand".
    name = re.sub(r"(?<=[^\W\d_]) \d+$", "", name)
    name = name.replace("左", "left ").replace("右", "right ")
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+", name)]
    side = next((_SIDES[word] for word in words if word in _SIDES), "")
    words = [word for word in words if word not in _SIDES and word not in _SAYS_NOTHING]
    if not side and len(words) > 1:
        words = [word for word in words if word not in _MIDDLE]
    base = "".join(words)
    if not side:
        for prefix in ("left", "right"):
            if base.startswith(prefix) and len(base) > len(prefix):
                return prefix, base[len(prefix) :]
        if match := _SHORT.fullmatch(base):
            return _SIDES[match[1]], match[2]
    return side, base


_TRUNK_PARTS = {"pelvis": 0.115, "spine1": 0.293, "spine2": 0.4866, "spine3": 0.5642, "neck": 0.8608, "head": 1.0}
"""Places of the 22-joint body's trunk joints on the line from mid-hip to head, by the target's bones."""

_COLLAR = (0.36, 0.34)
"""A collar is spine3 + a (shoulder - spine3) + b (neck - spine3); fitted to a HumanML3D clip, within 1.5 cm."""

_ANKLE_TO_HEAD = 0.88
"""Part of a person's height from the ankle to the head joint: 0.92, near the ear, less 0.039 for the foot (Drillis and
Contini). The three CMU rigs, a Rokoko and a cgspeed one come out within 5 % of their height when they stand."""

_LEG_BONES = (("hip", "knee"), ("knee", "ankle"))


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
        toe, ankle = f"{side} toe", f"{side} ankle"
        if toe not in roles and ankle in roles:
            below = [joint for joint, parent in enumerate(parents) if parent == roles[ankle]]
            if below:
                roles[toe] = below[0]
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
            weights[HUMANML.index(joint), roles[role]] = 1.0
    _trunk(weights, roles, parents, positions[0])
    for row, joint in enumerate(HUMANML.joint_names):
        if MAPPED + joint in names and joint not in BODY.values():
            weights[row] = 0.0
            weights[row, names.index(MAPPED + joint)] = 1.0
    leg = leg_length(roles, positions[0])
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


def joint_path(parents: Sequence[int], joint: int, top: int = -1) -> list[int]:
    """Return the joints from `top` down to `joint`; from the root if `top` is not above it."""
    path = []
    while joint >= 0:
        path.append(joint)
        if joint == top:
            break
        joint = parents[joint]
    return path[::-1]


def leg_length(roles: Mapping[str, int], pose: Tensor) -> float:
    """Return the mean length of the legs from hip to ankle in a pose ``[J, 3]``; 0 if a leg's joint is unknown.

    Args:
        roles: Roles to joints (`find_roles`).
        pose: Places of all joints; the result is in their unit.
    """
    pieces = [(f"{side} {a}", f"{side} {b}") for side in ("left", "right") for a, b in _LEG_BONES]
    if any(a not in roles or b not in roles for a, b in pieces):
        return 0.0
    return sum(float((pose[roles[a]] - pose[roles[b]]).norm()) for a, b in pieces) / 2


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
    leg = leg_length(roles, pose)
    if leg <= 0 or not {"pelvis", "head"} <= roles.keys():
        return 0.0
    _, steps = _hips_to_head(roles, parents, pose.double())
    return (leg + float(steps.sum())) / _ANKLE_TO_HEAD


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


# Which way a body faces, by its hips and shoulders.


_FLAT = 1e-3
"""Horizontal length of the summed unit lines below which a body lies on its side and its front is not known."""


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


# Sides, partners and the head, by the names of joints.


Side = Literal["L", "R", "-"]

_WORDS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"))
_HEADS = ("head", "bun")
"""``BUN`` is KIT's upper neck, the highest joint it has."""


def sides(names: Sequence[str]) -> tuple[Side, ...]:
    """Return L, R or ``-`` (centre or unknown) for each joint.

    A joint is on the left if replacing *left* by *right*, or L by R as the first letter, the last or a separate word,
    gives the name of another joint: ``LeftArm``, ``thigh_l``, ``lfemur``, ``Bip01 L Calf``, KIT's ``LMrot``. So
    ``Lumbar`` is not a left joint unless there is a ``Rumbar``.
    """
    pairs = _pairs(names)
    right = set(pairs.values())
    return tuple("L" if name in pairs else "R" if name in right else "-" for name in map(_plain_side, names))


def mirror_order(names: Sequence[str]) -> tuple[int, ...]:
    """Return for each joint its partner on the other side by name, or itself at the centre.

    Example:
        >>> mirror_order(["hips", "left_foot", "right_foot"])
        (0, 2, 1)
    """
    pairs = _pairs(names)
    partner = pairs | {right: left for left, right in pairs.items()}
    # An end site shares its joint's plain name but has another partner.
    place = {(_plain_side(name), name.endswith(END)): joint for joint, name in enumerate(names)}
    plain = [(_plain_side(name), name.endswith(END)) for name in names]
    return tuple(place.get((partner.get(name, name), end), joint) for joint, (name, end) in enumerate(plain))


def _pairs(names: Sequence[str]) -> dict[str, str]:
    """Return the plain name of the right joint by that of the left one."""
    plain = {_plain_side(name): None for name in names}
    return {name: partner for name in plain for partner in _mirrored(name) if partner in plain}


def head_joint(names: Sequence[str]) -> int:
    """Return the joint at which a head is drawn, -1 if none is named so."""
    for word in _HEADS:
        for joint, name in enumerate(names):
            last = re.split(r"[^a-z]+", _plain_side(name).lower())[-1]
            if last == word and not name.endswith(END):
                return joint
    return -1


def _plain_side(name: str) -> str:
    """Drop the namespace (``mixamorig:Hips``) and the mark of an end site, which is on its parent's side."""
    return re.split(r"[:|]", name.removesuffix(END))[-1]


def _mirrored(name: str) -> list[str]:
    """Return what a left joint's partner may be called."""
    partners = [name.replace(left, right) for left, right in _WORDS if left in name]
    for left, right in (("L", "R"), ("l", "r")):
        if name.startswith(left):
            partners.append(right + name[1:])
        if name.endswith(left):
            partners.append(name[:-1] + right)
        partners.append(re.sub(rf"(?<![A-Za-z]){left}(?![A-Za-z])", right, name))
    return [partner for partner in partners if partner != name]
