"""Where the feet of a rig are."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.rigs._roles import find_roles

Feet = tuple[tuple[int, ...], tuple[int, ...]]
"""Joints of the left foot and of the right one, in the same order."""


def find_feet(names: Sequence[str], parents: Sequence[int]) -> Feet | None:
    """Find ankles and toes by their names.

    Args:
        names: Joint names.
        parents: Parent of each joint; where no toe is named, the first joint below the ankle stands for it.

    Returns:
        (ankle, toe) of the left foot and of the right one, without toes where a foot has none; None when an ankle is
        not found.
    """
    roles = find_roles(names, parents)
    feet = []
    for side in ("left", "right"):
        ankle = roles.get(f"{side} ankle")
        if ankle is None:
            return None
        below = [joint for joint, parent in enumerate(parents) if parent == ankle]
        feet.append([ankle, *[roles.get(f"{side} toe", below[0] if below else -1)]])
    if min(feet[0] + feet[1]) < 0:
        feet = [foot[:1] for foot in feet]
    return tuple(feet[0]), tuple(feet[1])
