"""Joints of a person in a rig, found by their names in any program's spelling; sides and partners by names.

A role is a joint of a person, such as ``left hip``. KIT's joints, which are named after the other side, count by the
side that they are on (`rig_names`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from torch import Tensor

from motionkit.motion.clip import BODY, MAPPED
from motionkit.motion.motion import END
from motionkit.motion.skeleton import KIT

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

Side = Literal["L", "R", "-"]

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

_LEG_BONES = (("hip", "knee"), ("knee", "ankle"))
_LINE = 1500
"""Most letters of joint names in a message."""

_WORDS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"))
_HEADS = ("head", "bun")
"""``BUN`` is KIT's upper neck, the highest joint it has."""

_KIT_SIDES = {"L": "right", "R": "left"}
_KIT_PARTS = {
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
    f"{_KIT_SIDES[name[0]]}_{_KIT_PARTS[name[1:]]}" if name[0] in _KIT_SIDES and name[1:] in _KIT_PARTS else name
    for name in KIT.joint_names
)
"""KIT's joints in KIT's order, named by the side they are on: for skeletons that other programs open.

In public KIT features a body that faces +Z (its toes and knees point there) has joints 5-7 and 11-15 at negative x:
they are its right arm and leg, as in HumanML3D's code. KIT's body model calls them ``LS`` to ``LW``, ``LH`` to ``LF``.
Arrays keep those names and their order; skeletons in files name the true side."""


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
    return list(_paired(tuple(names)))


@lru_cache(maxsize=64)
def _paired(names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    sides: dict[tuple[str, str], list[int]] = {}
    for joint, name in _plain([name.removesuffix(END) for name in rig_names(names)]):
        side, base = _normalise(name)
        sides.setdefault((side, base + END * names[joint].endswith(END)), []).append(joint)
    return tuple(
        (joints[0], twins[0])
        for (side, base), joints in sides.items()
        if side == "left" and len(joints) == 1 and len(twins := sides.get(("right", base), [])) == 1
    )


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
    for side in ("left", "right"):
        # A rig without hands ends its forearms at the wrists.
        below = [joint for joint, parent in enumerate(parents) if parent == roles.get(f"{side} elbow", -2)]
        if f"{side} wrist" not in roles and len(below) == 1 and names[below[0]].endswith(END):
            roles[f"{side} wrist"] = below[0]
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


def is_below(joint: int, top: int, parents: Sequence[int]) -> bool:
    """Return whether a joint is another one or hangs on it."""
    while joint >= 0:
        if joint == top:
            return True
        joint = parents[joint]
    return False


def body_joints(names: Sequence[str], parents: Sequence[int]) -> list[int]:
    """Return the joints of the body, its root first: without a root that stays on the ground, and what hangs on that.

    Game engines put the pelvis below such a root. The pelvis travels away from it, so the way between is no bone. It is
    the root of the body if every joint that is found by name hangs on it.

    Args:
        names: Joint names; see `find_roles`.
        parents: Parent of each joint, which comes before it.

    Example:
        >>> body_joints(["Root", "Hips", "LeftUpLeg", "RightUpLeg", "ik_hand"], [-1, 0, 1, 1, 0])
        [1, 2, 3]
    """
    return list(_body(tuple(names), tuple(parents)))


@lru_cache(maxsize=64)
def _body(names: tuple[str, ...], parents: tuple[int, ...]) -> tuple[int, ...]:
    roles = find_roles(names, parents)
    top = roles.get("pelvis", -1)
    if {"left hip", "right hip"} <= roles.keys() and all(is_below(joint, top, parents) for joint in roles.values()):
        return tuple(joint for joint in range(len(parents)) if is_below(joint, top, parents))
    return tuple(range(len(parents)))


def joint_path(parents: Sequence[int], joint: int, top: int = -1) -> list[int]:
    """Return the joints from `top` down to `joint`; from the root if `top` is not above it."""
    path = []
    while joint >= 0:
        path.append(joint)
        if joint == top:
            break
        joint = parents[joint]
    return path[::-1]


def toe_of(roles: Mapping[str, int], parents: Sequence[int], side: str) -> int:
    """Return the toe of a side with an ankle: the joint of that role, else the first below the ankle; -1 without."""
    below = (joint for joint, parent in enumerate(parents) if parent == roles[f"{side} ankle"])
    return roles.get(f"{side} toe", next(below, -1))


def hip_to_ankle(roles: Mapping[str, int], pose: Tensor) -> float:
    """Return the mean length of the legs from hip to ankle in a pose ``[J, 3]``; 0 if a leg's joint is unknown.

    Args:
        roles: Roles to joints (`find_roles`).
        pose: Places of all joints; the result is in their unit.
    """
    pieces = [(f"{side} {a}", f"{side} {b}") for side in ("left", "right") for a, b in _LEG_BONES]
    if any(a not in roles or b not in roles for a, b in pieces):
        return 0.0
    ends, starts = [roles[a] for a, _ in pieces], [roles[b] for _, b in pieces]
    lengths: list[float] = (pose[ends] - pose[starts]).norm(dim=-1).tolist()
    return sum(lengths) / 2


def in_brief(names: Iterable[str], most: int = 5) -> str:
    """Return joint names for a message: all of a rig of a person, the first few of one with numbers or ids for names.

    Example:
        >>> in_brief(["hips", "spine"]), in_brief([f"3f2a{n}" for n in range(18)])
        ('hips, spine', '3f2a0, 3f2a1, 3f2a2, 3f2a3, 3f2a4 and 13 more')
    """
    known = list(names)
    words = sum(bool(re.search(r"[^\W\d_]{3,}", name)) for name in known)
    if 2 * words > len(known) and sum(map(len, known)) < _LINE:
        return ", ".join(known)
    return f"{', '.join(known[:most])}" + (f" and {len(known) - most} more" if len(known) > most else "")


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
