"""Knees and elbows as hinges: they tell how thighs and upper arms are turned about themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.rigs._rest import Rig
from motionkit.rigs._solve_twist import Evidence


@dataclass(frozen=True)
class _Hinge:
    """A ball joint whose twist a hinge below it shows.

    Attributes:
        middle: The hinge, knee or elbow.
        end: The joint below it, ankle or wrist.
        foot: A joint below `end` that points forward at rest, or empty.
        forward: +1 where the hinge folds its end forward (+Z at rest), -1 where backward.
    """

    middle: str
    end: str
    foot: str
    forward: float


_HINGES = {
    "left_hip": _Hinge("left_knee", "left_ankle", "left_foot", -1.0),
    "right_hip": _Hinge("right_knee", "right_ankle", "right_foot", -1.0),
    "left_shoulder": _Hinge("left_elbow", "left_wrist", "", 1.0),
    "right_shoulder": _Hinge("right_elbow", "right_wrist", "", 1.0),
    "LH": _Hinge("LK", "LA", "LF", -1.0),
    "RH": _Hinge("RK", "RA", "RF", -1.0),
    "LS": _Hinge("LE", "LW", "", 1.0),
    "RS": _Hinge("RE", "RW", "", 1.0),
}
"""By the joint that they turn. Other skeletons have none: their names do not say where a body bends."""

_STRAIGHT, _BENT = math.sin(math.radians(10.0)), math.sin(math.radians(35.0))
"""Sine of the bend below which a hinge shows nothing, and from which on it is fully believed."""

_FOOT = 0.3
"""Weight of the foot's direction beside a hinge's 1: toes point a little outwards."""


def bend_evidence(rig: Rig, unit: Tensor, joint: int, rest: Tensor, frame: Tensor) -> list[Evidence]:
    """Return what a hinge below `joint` says about the joint's twist.

    Args:
        rig: The skeleton.
        unit: ``[T, J, 3]`` directions of all bones in the world.
        joint: The joint that may have a hinge below.
        rest: ``[3]`` unit direction of its bone at rest.
        frame: ``[T, 3, 3]`` the joint's rotation without twist.
    """
    hinge = _HINGES.get(rig.names[joint])
    if hinge is None or not {hinge.middle, hinge.end} <= set(rig.names):
        return []
    ahead = rest.new_tensor([0.0, 0.0, hinge.forward])
    axis = torch.linalg.cross(rest, ahead)
    if float(axis.norm()) < 0.5:
        return []
    axis = axis / axis.norm()
    upper = unit[:, rig.names.index(hinge.middle)]
    lower = unit[:, rig.names.index(hinge.end)]
    normal = torch.linalg.cross(upper, lower, dim=-1)
    certain = _ramp(normal.norm(dim=-1))
    found = [Evidence(_seen_angle(normal, frame, rest, axis), certain)]
    if hinge.foot in rig.names:
        # The foot points forward from the shank, and the knee's axis is square to both. It speaks for straight legs.
        toe = unit[:, rig.names.index(hinge.foot)]
        across = -hinge.forward * torch.linalg.cross(toe, lower, dim=-1)
        size = (across - (across * upper).sum(dim=-1, keepdim=True) * upper).norm(dim=-1)
        found.append(Evidence(_seen_angle(across, frame, rest, axis), _FOOT * (1.0 - certain) * _ramp(size)))
    return found


def _ramp(sine: Tensor) -> Tensor:
    """Return 0 for straight, 1 for bent, smooth between."""
    part = ((sine - _STRAIGHT) / (_BENT - _STRAIGHT)).clamp(0.0, 1.0)
    return part.square() * (3.0 - 2.0 * part)


def _seen_angle(vector: Tensor, frame: Tensor, rest: Tensor, axis: Tensor) -> Tensor:
    """Return the twist ``[T]`` about `rest` that takes the hinge's axis to a vector in the world."""
    local = (frame.mT @ vector[..., None])[..., 0]
    return torch.atan2(local @ torch.linalg.cross(rest, axis), local @ axis)
