"""Inverse kinematics of a leg or an arm: two bones whose end is brought to a place, in closed form."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.geometry._rotations import rotation_between

_LEAST = 1e-12


def two_bones(start: Tensor, middle: Tensor, end: Tensor, target: Tensor, hinge: Tensor) -> tuple[Tensor, Tensor]:
    """Return the turns of two bones in the world that bring the end of the second one to a target.

    First the second bone turns about the hinge, until the end is as far from the start as the target is (law of
    cosines); then the whole limb turns about the start by the smallest rotation that points it there, so that the
    middle joint goes on bending the way it bent. A limb that bends about the hinge does not turn for a target at its
    end. A target further away than the bones are long, or nearer than they fold, is approached as far as they go.

    Args:
        start: ``[..., 3]`` the joint that stays: a hip.
        middle: ``[..., 3]`` the joint between the bones: a knee.
        end: ``[..., 3]`` the joint that is brought to the target: an ankle.
        target: ``[..., 3]``.
        hinge: ``[..., 3]`` axis, of any length, about which the second bone turns when the middle joint bends more. It
            need not be at right angles to the bones.

    Returns:
        ``[..., 3, 3]`` turns of the first and of the second bone:
        ``start + first (middle - start) + second (end - middle)`` is the target.

    Example:
        >>> place = torch.tensor([[0.0, 2, 0], [0.0, 1, 0], [0.0, 0, 0]], dtype=torch.float64)  # a straight leg
        >>> hinge = torch.tensor([1.0, 0, 0], dtype=torch.float64)
        >>> first, second = two_bones(*place, torch.tensor([0.0, 1, 0], dtype=torch.float64), hinge)
        >>> (place[0] + first @ (place[1] - place[0])).round(decimals=3).tolist()  # the knee, ahead
        [0.0, 1.5, 0.866]
    """
    import roma

    upper, lower = middle - start, end - middle
    length = upper.norm(dim=-1, keepdim=True).clamp_min(_LEAST)
    along = upper / length
    hinge = hinge - (hinge * along).sum(-1, keepdim=True) * along
    axis = hinge / hinge.norm(dim=-1, keepdim=True).clamp_min(_LEAST)
    # upper . (lower turned by phi) = fixed + cosine cos(phi) + sine sin(phi), and it must be `wanted`.
    fixed = (lower * axis).sum(-1) * (upper * axis).sum(-1)
    cosine = (upper * lower).sum(-1) - fixed
    sine = (upper * torch.linalg.cross(axis, lower, dim=-1)).sum(-1)
    distance = (target - start).square().sum(-1)
    wanted = (distance - upper.square().sum(-1) - lower.square().sum(-1)) / 2
    most = torch.hypot(cosine, sine).clamp_min(_LEAST)
    bend = torch.acos(((wanted - fixed) / most).clamp(-1.0, 1.0))
    angle = torch.atan2(sine, cosine) + bend
    second = roma.rotvec_to_rotmat(axis * angle[..., None])
    reached = upper + (second @ lower[..., None])[..., 0]
    first = rotation_between(reached, target - start)
    return first, first @ second
