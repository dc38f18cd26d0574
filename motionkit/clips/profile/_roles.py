"""Which joints of a body are its hips, shoulders and feet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motionkit.rigs import find_feet
from motionkit.rigs._roles import find_roles

_NAMES = ("left hip", "right hip", "left shoulder", "right shoulder")


@dataclass(frozen=True)
class Roles:
    """Places of joints in a rig.

    Attributes:
        left_hip: Left hip.
        right_hip: Right hip.
        left_shoulder: Left shoulder.
        right_shoulder: Right shoulder.
        left_foot: Left ankle and toe.
        right_foot: Right ankle and toe.
    """

    left_hip: int
    right_hip: int
    left_shoulder: int
    right_shoulder: int
    left_foot: tuple[int, int]
    right_foot: tuple[int, int]


def body_roles(names: tuple[str, ...], parents: Sequence[int]) -> Roles | None:
    """Return the roles by the joints' names, or None where the names do not tell.

    Args:
        names: Joint names.
        parents: Parent of each joint.
    """
    found = find_roles(names, parents)
    feet = find_feet(names, parents)
    if feet is None or not all(name in found for name in _NAMES):
        return None
    # A foot without a toe stands for both.
    place = [found[name] for name in _NAMES] + [foot[part % len(foot)] for foot in feet for part in (0, 1)]
    return Roles(place[0], place[1], place[2], place[3], (place[4], place[5]), (place[6], place[7]))
