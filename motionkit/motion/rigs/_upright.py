"""Which axis of a rig is up, and turning a Z-up motion into a Y-up one."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from motionkit.geometry import positions_from_bones
from motionkit.motion._motion import Motion
from motionkit.motion.rigs._bodymap import find_roles

Axis = Literal["y", "z"]

_CLEAR = 0.8
"""A direction belongs to an axis when its cosine to it is above this: within 37 degrees."""


def rest_up(motion: Motion) -> Axis | None:
    """Return the axis that is up in the rest pose: the legs go down it, or the trunk goes up it.

    Args:
        motion: Any unit; only names, parents and offsets are looked at.

    Returns:
        ``y``, ``z``, or None where the rest pose does not tell: no known joints, or bones laid out along another axis
        (rigs whose bones all lie along X in the rest pose).
    """
    roles = find_roles(motion.names, motion.parents)
    places = positions_from_bones(motion.offsets, motion.parents)
    legs = [
        places[roles[f"{side} hip"]] - places[roles[f"{side} ankle"]]
        for side in ("left", "right")
        if f"{side} hip" in roles and f"{side} ankle" in roles
    ]
    if legs:
        return _axis(torch.stack(legs).sum(dim=0))
    if "head" in roles:
        return _axis(places[roles["head"]] - places[roles["pelvis"]])
    return None


def moving_up(motion: Motion) -> Axis | None:
    """Return the axis along which the trunk of a known body stands for most of a motion, or None."""
    roles = find_roles(motion.names, motion.parents)
    if "head" not in roles:
        return None
    places = motion.cut(0, None).positions()
    trunk = torch.nn.functional.normalize(places[:, roles["head"]] - places[:, roles["pelvis"]], dim=-1)
    return _axis(trunk.median(dim=0).values)


def z_up_to_y_up(motion: Motion) -> Motion:
    """Turn a Z-up motion so that Y is up: ``(x, y, z)`` becomes ``(x, z, -y)``, bones and rotations alike."""
    turn = motion.offsets.new_tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    return Motion(
        motion.names,
        motion.parents,
        motion.offsets @ turn.T,
        turn @ motion.rotations @ turn.T,
        motion.translations @ turn.T,
        motion.fps,
        motion.tracks,
    )


def _axis(up: Tensor) -> Axis | None:
    length = float(up.norm())
    if length == 0:
        return None
    _, y, z = (up / length).tolist()
    return "y" if y > _CLEAR else "z" if z > _CLEAR else None
