"""Which side of a body a joint is on, which joint is its partner, and where the head is, by the names of joints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from motionkit.motion._motion import END

Side = Literal["L", "R", "-"]

_WORDS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"))
_HEADS = ("head", "bun")
"""``BUN`` is KIT's upper neck, the highest joint it has."""


def sides(names: Sequence[str]) -> tuple[Side, ...]:
    """Return L, R or ``-`` (centre or unknown) for each joint.

    A joint is on the left when writing *right* for *left*, or R for L as the first letter, the last or a word of its
    own, gives the name of another joint: ``LeftArm``, ``thigh_l``, ``lfemur``, ``Bip01 L Calf``, KIT's ``LMrot``. So
    ``Lumbar`` is no left joint unless there is a ``Rumbar``.
    """
    pairs = _pairs(names)
    right = set(pairs.values())
    return tuple("L" if name in pairs else "R" if name in right else "-" for name in map(_plain, names))


def mirror_order(names: Sequence[str]) -> tuple[int, ...]:
    """Return for each joint the one on the other side of the body, by their names; itself for joints at the centre.

    Example:
        >>> mirror_order(["hips", "left_foot", "right_foot"])
        (0, 2, 1)
    """
    pairs = _pairs(names)
    partner = pairs | {right: left for left, right in pairs.items()}
    place = {_plain(name): joint for joint, name in enumerate(names)}
    return tuple(place[partner.get(name, name)] for name in map(_plain, names))


def _pairs(names: Sequence[str]) -> dict[str, str]:
    """Return the plain name of the right joint by that of the left one."""
    known = {_plain(name): None for name in names}
    return {name: other for name in known for other in _mirrored(name) if other in known}


def head_joint(names: Sequence[str]) -> int:
    """Return the joint at which a head is drawn, -1 when no joint is named as one."""
    for wanted in _HEADS:
        for joint, name in enumerate(names):
            last = re.split(r"[^a-z]+", _plain(name).lower())[-1]
            if last == wanted and not name.endswith(END):
                return joint
    return -1


def _plain(name: str) -> str:
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
