"""Hips, knees, wrists and other joints of a person in a rig, found by their names in any program's spelling."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from motionkit.motion._joint_map import BODY, MAPPED
from motionkit.motion._motion import END
from motionkit.rigs._kit import rig_names

SIDED = {
    "hip": ("upleg", "thigh", "upperleg", "femur", "hip", "leg", "足"),
    "knee": ("leg", "shin", "lowerleg", "calf", "tibia", "knee", "lowleg", "ひざ", "膝"),
    "ankle": ("ankle", "foot", "足首"),
    "toe": ("toebase", "toe", "toes", "ball", "foot", "つま先"),
    "shoulder": ("arm", "upperarm", "uparm", "uarm", "shldr", "humerus", "shoulder", "腕"),
    "elbow": ("forearm", "lowerarm", "lowarm", "farm", "elbow", "radius", "ひじ", "肘"),
    "wrist": ("wrist", "hand", "手首"),
}
"""Names of each sided joint without its side, the most certain first: ``LeftShoulder`` is a collar where there is a
``LeftArm``, and the shoulder itself where there is none; ``LeftFoot`` is the toe beside a ``LeftAnkle``. The Japanese
names are MikuMikuDance's."""

CENTRE = {"pelvis": ("hips", "pelvis", "hip", "root", "腰", "センター"), "head": ("head", "頭")}

_ABOVE = {"knee": "hip", "ankle": "knee", "toe": "ankle", "elbow": "shoulder", "wrist": "elbow"}
"""The joint of the same limb that must be further up."""

_SIDES = {"left": "left", "l": "left", "right": "right", "r": "right"}
_SHORT = re.compile(f"([lr])({'|'.join(sorted({alias for aliases in SIDED.values() for alias in aliases}))})")
"""Sides as Poser and CMU write them, all in lower case: ``lfemur``, ``rshldr``."""

_PREFIX = re.compile(r"^(Character\d*|Bip\d*|J_Bip|mixamorig\d*|CC_Base|def|DEF|b|[mf]_avg)[_\s-]+")
_SAYS_NOTHING = ("joint", "jnt", "jt", "bone", "bend", "stretch")
_MIDDLE = ("c", "m", "x")
"""How rigs mark what is on neither side: ``Root_M``, Auto-Rig Pro's ``root.x``."""
_SHARED = 0.7
"""Part of the joints that must begin alike for that to be the name of the figure: ``Actor01_Hips``."""


def find_roles(names: Sequence[str], parents: Sequence[int]) -> dict[str, int]:
    """Match roles (``pelvis``, ``head``, ``left hip``, ..., ``right wrist``) to joints as far as they are found.

    The first alias that any joint has wins; of several joints with one name, the one that hangs in the right limb.

    Args:
        names: Joint names; namespaces, case, ``Left``/``L_``/``.l``, underscores and a name of the figure before each
            do not matter. Joints that a table named (`JointMap`) are what it says. KIT's joints are those of the side
            they are on (`rig_names`).
        parents: Parent of each joint.
    """
    return dict(_match(rig_names(names), tuple(parents))[0])


def find_pairs(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the joints, left and right, whose names differ in their side alone; end sites have their joint's side."""
    sides: dict[tuple[str, str], list[int]] = {}
    for joint, name in _plain([name.removesuffix(END) for name in rig_names(names)]):
        side, rest = _normalise(name)
        sides.setdefault((side, rest + END * names[joint].endswith(END)), []).append(joint)
    return [
        (joints[0], other[0])
        for (side, rest), joints in sides.items()
        if side == "left" and len(joints) == 1 and len(other := sides.get(("right", rest), [])) == 1
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
        side, rest = _normalise(name)
        exact.setdefault((side, rest), []).append(joint)
        if rest[-1:].isdigit():
            loose.setdefault((side, rest.rstrip("0123456789")), []).append(joint)
    found = {role: names.index(MAPPED + joint) for role, joint in BODY.items() if MAPPED + joint in names}
    doubles: dict[str, tuple[str, ...]] = {}
    wanted = [("", role, aliases) for role, aliases in CENTRE.items()]
    wanted += [(side, role, aliases) for side in ("left", "right") for role, aliases in SIDED.items()]
    for side, role, aliases in wanted:
        if f"{side} {role}".strip() in found:
            continue
        top = found.get(f"{side} {_ABOVE.get(role)}")
        for table, inside in ((exact, True), (exact, False), (loose, True)):
            keys = ((side, alias) for alias in aliases)
            joints = next(_fitting(table, keys, set(found.values()), top if inside else None, parents), None)
            if joints:
                key = f"{side} {role}".strip()
                found[key] = joints[0]
                rivals = [joint for joint in joints if not is_below(joint, joints[0], parents)]
                if rivals and table is exact:
                    doubles[key] = tuple(names[joint] for joint in (joints[0], *rivals))
                break
    if "pelvis" not in found and -1 in parents:
        found["pelvis"] = parents.index(-1)
    return found, doubles


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
    """Yield joints with their names, without namespaces and without what most of the names begin with."""
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
    rest = "".join(words)
    if not side:
        for prefix in ("left", "right"):
            if rest.startswith(prefix) and len(rest) > len(prefix):
                return prefix, rest[len(prefix) :]
        if match := _SHORT.fullmatch(rest):
            return _SIDES[match[1]], match[2]
    return side, rest
