"""Which way a body faces, and where it goes from there, in Unreal's axes."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.formats.mpl._axes import UNREAL
from motionkit.geometry import unwrap
from motionkit.motion._motion import Motion
from motionkit.rigs._front import front_of
from motionkit.rigs._roles import find_roles

SECONDS = (-0.3, -0.15, 0.0, 0.15, 0.3)
"""Times of the trajectory window around a frame."""

_STANDING = 0.1
"""m/s below which a body goes nowhere and its direction is the one it faces."""


def body_yaw(motion: Motion) -> Tensor:
    """Return ``[T]`` radians about Unreal's z axis by which a body has turned from facing along x; no jumps.

    Where its front is (`front_of`); where hips and shoulders do not tell, the way its root joint has turned from rest.
    """
    root = motion.rotations[:, 0]
    yaw = torch.atan2(root[:, 0, 2] - root[:, 2, 0], root[:, 0, 0] + root[:, 2, 2])
    if front := front_of(motion.positions(), find_roles(motion.names, motion.parents)):
        yaw = torch.where(front[1], front[0], yaw)
    forward = torch.stack([yaw.sin(), torch.zeros_like(yaw), yaw.cos()], dim=-1)
    return unwrap(UNREAL.angle(UNREAL.points_back(forward)))


def trajectory(position: Tensor, velocity: Tensor, yaw: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    """Return where a body was and will be around each frame, seen from itself.

    Args:
        position: ``[T, 2]`` metres on the ground.
        velocity: ``[T, 2]`` m/s.
        yaw: ``[T]`` radians that the body faces.
        fps: Frames per second.

    Returns:
        Places and directions ``[T, K, 2]`` (forward, right) at `SECONDS` around each frame, times outside of the clip
        squeezed to its ends. A direction is that of travel; of a body that stands, the one it faces.
    """
    frames = len(position)
    place = torch.arange(frames)[:, None] + torch.tensor(SECONDS, dtype=torch.float64) * fps
    place = place.clamp(0, frames - 1)
    before = place.floor().long()
    after, part = (before + 1).clamp_max(frames - 1), (place - before)[..., None]
    facing = torch.stack([yaw.cos(), yaw.sin()], dim=-1)
    speed = velocity.norm(dim=-1, keepdim=True)
    direction = torch.where(speed > _STANDING, velocity / speed.clamp_min(1e-9), facing)
    there = torch.lerp(position[before], position[after], part) - position[:, None]
    towards = torch.nn.functional.normalize(torch.lerp(direction[before], direction[after], part), dim=-1)
    return _seen_from(there, facing), _seen_from(towards, facing)


def step_velocity(position: Tensor, fps: float) -> Tensor:
    """Return ``[T, D]`` m/s towards the next frame, the last one held: what exporters call the root's velocity."""
    if len(position) < 2:
        return torch.zeros_like(position)
    steps = position.diff(dim=0) * fps
    return torch.cat([steps, steps[-1:]])


def _seen_from(vectors: Tensor, facing: Tensor) -> Tensor:
    """Turn ``[T, K, 2]`` from the ground's axes to (forward, right) of ``[T, 2]`` facing directions."""
    x, y = vectors.unbind(-1)
    cos, sin = facing[:, None].unbind(-1)
    return torch.stack([x * cos + y * sin, y * cos - x * sin], dim=-1)
