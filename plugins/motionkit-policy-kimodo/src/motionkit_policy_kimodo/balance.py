"""Balance of the Unitree G1 without a simulator: the zero-moment point against the feet, and free fall in flight.

The ground can only push, and only where feet touch it. The point where its push must act for the robot to move as it
does, the zero-moment point (Vukobratovic 1969), is therefore in the convex hull of the soles; a robot whose feet are in
the air falls freely. Of B links with masses m_i, centres c_i, velocities v_i, inertias I_i and angular velocities w_i::

    k = sum m_i (c_i - c) x (v_i - v) + I_i w_i         angular momentum about the centre of mass c
    f = c'' + g                                         force of the ground per mass
    x = c_x + (k'_z / m - c_y f_x) / f_y                the point on the ground at height 0
    z = c_z - (k'_x / m + c_y f_z) / f_y
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit_policy_kimodo.mjcf import Robot

GRAVITY = 9.81  # m/s^2

_SMOOTH = 0.06  # seconds, standard deviation of the Gaussian over accelerations
_LEAST = 0.2  # of the weight: a smaller push of the ground counts as this, or the point would be anywhere
_GROUND, _LIFTED = 0.02, 0.05  # metres: up to the first a point touches the ground, from the second on it does not
_INWARD = 1.0  # metres that a lifted point counts as further inside
_DIRECTIONS = 32  # in which the hull is felt; distances are at most 0.5 % too small
_SOFT = 1e-3  # metres below which a distance is smooth
_NEAR, _FALLS = 0.02, 0.1  # metres, and of gravity: a frame that is less off is balanced


@dataclass(frozen=True, eq=False)
class Balance:
    """How motions stand, ``[N, T]`` each; frames past the end hold anything finite."""

    point: Tensor  # ``[N, T, 2]`` the zero-moment point, x and z in metres
    outside: Tensor  # Metres by which it is outside the hull of the feet
    airborne: Tensor  # 0 with a foot on the ground, 1 with none, between them while they leave it
    fall: Tensor  # How far the vertical acceleration of the centre of mass is from free fall, in g

    @property
    def error(self) -> Tensor:
        """Metres outside the hull; in the air the part of g that is no free fall."""
        return (1 - self.airborne) * self.outside + self.airborne * self.fall

    @property
    def balanced(self) -> Tensor:
        """Whether a frame is balanced, up to 2 cm, or in the air up to a tenth of g."""
        return self.error < torch.where(self.airborne > 0.5, _FALLS, _NEAR)


def balance(robot: Robot, rotations: Tensor, joints: Tensor, lengths: Tensor, fps: float) -> Balance:
    """Return how motions stand; differentiable.

    Args:
        robot: Masses and feet.
        rotations: ``[N, T, J, 3, 3]`` of the joints, in the world; padding is finite.
        joints: ``[N, T, J, 3]`` metres, Y up, the ground at 0.
        lengths: ``[N]`` valid frames. Of fewer than three, all accelerations are 0.
        fps: Frames per second.
    """
    turns = rotations[..., list(robot.joints), :, :]
    centres = joints[..., list(robot.joints), :] + _turned(turns, robot.centres)
    inertias = turns @ robot.inertias.to(joints) @ turns.mT
    shares = (robot.masses / robot.masses.sum()).to(joints)  # [B]
    centre, spin = momentum(centres, turns, shares, inertias / robot.masses.sum(), fps)
    # Accelerations are known between the first and the last frame; the Gaussian carries them to both.
    frames = torch.arange(joints.shape[1], device=joints.device)
    known = (frames > 0) & (frames < lengths[:, None] - 1)
    force = F.pad((centre[:, 2:] - 2 * centre[:, 1:-1] + centre[:, :-2]) * fps**2, (0, 0, 1, 1))
    twist = F.pad((spin[:, 1:] - spin[:, :-1]) * fps, (0, 0, 1, 1))
    force, twist = smoothed(torch.cat([force, twist], dim=-1), known, fps).split(3, dim=-1)
    push = (force[..., 1] + GRAVITY).clamp(min=_LEAST * GRAVITY)
    height = centre[..., 1]
    point = torch.stack(
        [
            centre[..., 0] + (twist[..., 2] - height * force[..., 0]) / push,
            centre[..., 2] - (twist[..., 0] + height * force[..., 2]) / push,
        ],
        dim=-1,
    )
    feet = list(robot.foot_joints)
    soles = joints[..., feet, :] + _turned(rotations[..., feet, :, :], robot.foot_points)
    lifted = ((soles[..., 1] - robot.foot_radii.to(joints) - _GROUND) / (_LIFTED - _GROUND)).clamp(0, 1)
    fall = (force[..., 1] + GRAVITY) / GRAVITY
    return Balance(point, outside(point, soles[..., [0, 2]], lifted), lifted.amin(-1), _soft(fall.abs()))


def momentum(centres: Tensor, turns: Tensor, shares: Tensor, inertias: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    """Return the centre of mass ``[N, T, 3]``, and the angular momentum about it per mass, ``[N, T - 1, 3]``.

    Args:
        centres: ``[N, T, B, 3]`` centres of mass of the links.
        turns: ``[N, T, B, 3, 3]`` their rotations.
        shares: ``[B]`` their masses as parts of the whole.
        inertias: ``[N, T, B, 3, 3]`` in the world, per mass of the whole.
        fps: Frames per second.
    """
    centre = (centres * shares[:, None]).sum(-2)
    arms = centres - centre[..., None, :]
    around = torch.linalg.cross(arms[:, 1:] + arms[:, :-1], arms[:, 1:] - arms[:, :-1]) / 2
    step = turns[:, 1:] @ turns[:, :-1].mT
    # The axis times the sine of the angle of a step, which is small; smooth at 0.
    skew = (step - step.mT) / 2
    spin = torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], dim=-1)
    own = ((inertias[:, 1:] + inertias[:, :-1]) / 2 @ spin[..., None]).squeeze(-1)
    return centre, ((around * shares[:, None]).sum(-2) + own.sum(-2)) * fps


def smoothed(values: Tensor, known: Tensor, fps: float) -> Tensor:
    """Return means ``[N, T, C]`` of the values that are `known` (``[N, T]``), by a Gaussian over time; 0 of none."""
    reach = math.ceil(4 * _SMOOTH * fps)
    time = torch.arange(-reach, reach + 1, device=values.device) / fps
    weights = torch.exp(-0.5 * (time / _SMOOTH).square()).to(values)[None, None]
    parts = torch.cat([torch.where(known[..., None], values, 0.0), known[..., None].to(values)], dim=-1)
    sums = F.conv1d(parts.mT.flatten(0, 1)[:, None], weights, padding=reach).view(*parts.mT.shape).mT
    return sums[..., :-1] / sums[..., -1:].clamp(min=1e-9)


def outside(point: Tensor, soles: Tensor, lifted: Tensor) -> Tensor:
    """Return the metres ``[...]`` by which points are outside the convex hull of soles, 0 inside; smooth at its edge.

    It is the largest distance by which a point is further in a direction than every sole.

    Args:
        point: ``[..., 2]``.
        soles: ``[..., F, 2]``.
        lifted: ``[..., F]``, 0 for a sole on the ground, 1 for one in the air, which bears nothing.
    """
    angles = torch.arange(_DIRECTIONS, device=point.device) * (2 * math.pi / _DIRECTIONS)
    directions = torch.stack([angles.cos(), angles.sin()]).to(point)  # [2, K]
    edge = (soles @ directions - _INWARD * lifted[..., None]).amax(-2)
    return _soft((point @ directions - edge).amax(-1).relu())


def _soft(distance: Tensor) -> Tensor:
    return (distance.square() + _SOFT**2).sqrt() - _SOFT


def _turned(turns: Tensor, vectors: Tensor) -> Tensor:
    return (turns @ vectors.to(turns)[..., None]).squeeze(-1)
