"""The movement of a clip: where the body faces, where it goes and how fast, and which feet touch the floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.clips.profile._moments import Bins, Counters, Counts
from motionkit.geometry._yaw import unwrap
from motionkit.motion._motion import JointMotion, Motion
from motionkit.rigs import find_feet, soft_contacts
from motionkit.rigs._roles import find_roles

FootJoints = tuple[tuple[int, int], tuple[int, int]]
"""Left ankle and toe, right ankle and toe; a foot without a toe has its ankle twice."""

SPEED_BINS = Bins(0.0, 0.05, 200)
"""Speed of the root along the floor in m/s."""

YAW_BINS = Bins(-math.pi - math.pi / 24, math.pi / 12, 25)
"""Radians; the first and the last bin are halves of the same direction, straight back."""

MOVING = 0.2
"""Least speed in m/s at which a step has a direction."""

_TOUCHING = 0.5
"""Soft contact from which a foot counts as standing."""


def yaw_of(motion: Motion | JointMotion, facing: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the yaw of a clip, and its yaw relative to the first frame.

    Args:
        motion: The clip; its track ``root_yaw`` is used if it has one.
        facing: ``[T]`` radians, unwrapped, from its joints; None if its front is unknown.

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


def named_feet(names: tuple[str, ...], parents: Sequence[int]) -> FootJoints | None:
    """Return the feet of a body, found by joint names; None if feet, hips or shoulders are not found."""
    feet, found = find_feet(names, parents), find_roles(names, parents)
    sides = ("left hip", "right hip", "left shoulder", "right shoulder")
    if feet is None or not all(name in found for name in sides):
        return None
    left, right = feet
    return (left[0], left[-1]), (right[0], right[-1])


@dataclass(frozen=True)
class Contacts(Counters):
    """Frames by the feet that touch the floor; two counts add.

    Attributes:
        frames: Frames counted.
        left: Frames with the left foot in contact.
        right: Frames with the right foot in contact.
        both: Frames with both.
        neither: Frames with none.
        from_file: Frames whose contacts are the file's own; those of the others were estimated.
    """

    frames: int = 0
    left: int = 0
    right: int = 0
    both: int = 0
    neither: int = 0
    from_file: int = 0

    @property
    def ratio(self) -> float | None:
        """Part of all feet's frames that are contacts."""
        return (self.left + self.right) / (2 * self.frames) if self.frames else None


def count_contacts(motion: Motion | JointMotion, positions: Tensor, feet: FootJoints | None) -> Contacts:
    """Count a clip's contacts, from the scores of the file if it has them.

    Args:
        motion: The clip, for its frame rate and a track ``contacts [T, 2]``.
        positions: Its joints ``[T, J, 3]``, m.
        feet: Its feet, see `named_feet`.
    """
    given = motion.tracks.get("contacts")
    if given is not None and given.shape == (motion.frames, 2):
        scores, own = given, motion.frames
    elif feet is not None and len(positions) > 1:
        scores, own = soft_contacts(positions, motion.fps, feet), 0
    else:
        return Contacts()
    left, right = (scores > _TOUCHING).unbind(-1)
    return Contacts(
        motion.frames, int(left.sum()), int(right.sum()), int((left & right).sum()), int((~left & ~right).sum()), own
    )
