"""The course of a clip over the floor: where the body faces, where it goes and how fast."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from motionkit.clips.profile._moments import Bins, Counts
from motionkit.geometry import unwrap
from motionkit.motion._motion import JointMotion, Motion

SPEED_BINS = Bins(0.0, 0.05, 200)
"""m/s of the root along the floor."""

YAW_BINS = Bins(-math.pi - math.pi / 24, math.pi / 12, 25)
"""Radians; the first and the last bin are halves of the same direction, straight back."""

MOVING = 0.2
"""m/s from which a step has a direction."""


def yaw_of(motion: Motion | JointMotion, facing: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the yaw as a file gives it, else since the first frame; and always since the first frame.

    Args:
        motion: The clip, for a track ``root_yaw``.
        facing: ``[T]`` radians, unwrapped, from its joints; None where nothing tells its front.

    Returns:
        ``[T]`` radians each, None without either.
    """
    given = motion.tracks.get("root_yaw")
    if given is not None and given.numel() == motion.frames and motion.frames:
        yaw = unwrap(given.double().flatten())
        return yaw, yaw - yaw[0]
    if facing is None:
        return None, None
    since = facing - facing[0]
    return since, since


def velocity_of(motion: Motion | JointMotion, positions: Tensor) -> Tensor:
    """Return the root's velocity along the floor ``[T-1, 2]`` (x, z) in m/s."""
    return (positions[1:, 0] - positions[:-1, 0])[:, [0, 2]] * motion.fps


def speed_of(motion: Motion | JointMotion, velocity: Tensor) -> Tensor:
    """Return the speed along the floor: of the file's own root velocity ``[T]``, else of the root's steps ``[T-1]``."""
    given = motion.tracks.get("root_velocity")
    if given is not None and given.shape == (motion.frames, 2):
        velocity = given.double()
    speed: Tensor = velocity.norm(dim=-1)
    return speed


def tally_facing(since: Tensor | None) -> Counts:
    """Tally where a body faces since its first frame ``[T]``, radians."""
    return YAW_BINS.zeros() if since is None else YAW_BINS.tally(_wrapped(since))


def tally_travel(velocity: Tensor, facing: Tensor | None) -> Counts:
    """Tally the direction of travel relative to the front, over the steps that move.

    Args:
        velocity: ``[T-1, 2]`` m/s.
        facing: ``[T]`` radians, or None.
    """
    if facing is None:
        return YAW_BINS.zeros()
    direction = torch.atan2(velocity[:, 0], velocity[:, 1])
    moving = velocity.norm(dim=-1) > MOVING
    return YAW_BINS.tally(_wrapped((direction - facing[:-1])[moving]))


def _wrapped(angle: Tensor) -> Tensor:
    return torch.atan2(angle.sin(), angle.cos())
