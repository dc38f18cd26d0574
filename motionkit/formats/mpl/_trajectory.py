"""Root path, directions and angular velocities that are stored for the predictor."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.formats.mpl._conventions import UNREAL
from motionkit.geometry._yaw import unwrap
from motionkit.motion._motion import Motion
from motionkit.rigs import body_yaw

SECONDS = (-0.3, -0.15, 0.0, 0.15, 0.3)
"""Times of the trajectory window around a frame."""

_STANDING = 0.1
"""m/s below which a body goes nowhere and its direction is the one it faces."""


def unreal_yaw(motion: Motion) -> Tensor:
    """Return ``[T]`` radians about Unreal's z axis from facing along x to where the body faces, without jumps."""
    yaw = body_yaw(motion)
    assert yaw is not None  # a Motion has rotations, which tell a yaw where names do not
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
    # [T, K] places in frames, not whole: values are blended between the frames before and after.
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


def angular_velocity(rotations: Tensor, fps: float) -> Tensor:
    """Return ``[T, ..., 3]`` rad/s in the parent's frame: ``log(R_t R_{t-1}^T) fps``, frame 0 as frame 1.

    Only frames up to t are used. The whole angle is in it (the predictor's original had half).
    """
    import roma

    if len(rotations) < 2:
        return rotations.new_zeros(*rotations.shape[:-2], 3)
    steps: Tensor = roma.rotmat_to_rotvec(rotations[1:] @ rotations[:-1].transpose(-1, -2)) * fps
    return torch.cat([steps[:1], steps])
