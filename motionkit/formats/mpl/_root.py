"""Where the root of an exported motion is and which way it faces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import roma
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._axes import Axes
from motionkit.formats.mpl._document import Fields, is_number
from motionkit.geometry import unwrap

_SWING = math.radians(30.0)
"""Turns smaller than this say nothing about whether the root bone turns with them."""

_SWAY = math.radians(15.0)
"""A pelvis that keeps this close to RootYaw all the way through such a turn has the turn in its own rotation."""


@dataclass(frozen=True)
class Root:
    """The root motion of a file, in the file's axes.

    Attributes:
        position: ``[T, 3]`` metres; on the ground below the root bone in Unreal's exports.
        yaw: ``[T]`` radians, without jumps of a full turn.
        velocity: ``[T, 2]`` m/s along the two horizontal axes, or None when the file has none.
        offset: Radians by which the exporter turned the root's path against the poses.
        notes: What was read how.
        warnings: What a person should look at.
    """

    position: Tensor
    yaw: Tensor
    velocity: Tensor | None
    offset: float
    notes: dict[str, str]
    warnings: tuple[str, ...]


def read_root(document: Fields, axes: Axes, fps: float) -> Root:
    """Read RootPosition, RootYaw and RootVelocityXY.

    A missing position is summed up from the velocity (one frame's velocity leads to the next frame), a missing yaw is
    0. ``meta.root_motion.forward_axis_offset_deg`` with ``planar_alignment_applied`` means that the exporter has turned
    the path, and not the poses, by that angle: planted feet of such files stand still only when the poses are turned
    by its opposite.

    Raises:
        MotionkitError: A field is damaged, or an option of `meta` is not known.
    """
    table = document.meta.get("root_motion")
    table = table if isinstance(table, Mapping) else {}
    warnings, notes = [], {}
    frames = document.frames
    velocity = _velocity(document, axes)
    if document.has("RootPosition"):
        position = document.numbers("RootPosition", 3) * axes.unit
    elif velocity is not None:
        steps = torch.zeros(frames, 3, dtype=torch.float64)
        steps[1:, list(axes.ground)] = velocity[:-1] / fps
        position = steps.cumsum(0)
        notes["root"] = "summed up from its velocity"
    else:
        position = torch.zeros(frames, 3, dtype=torch.float64)
        warnings.append("there is neither RootPosition nor RootVelocityXY: the body stays where it is.")
    yaw = torch.zeros(frames, dtype=torch.float64)
    if document.has("RootYaw"):
        yaw = document.numbers("RootYaw")
        units = str(table.get("root_yaw_units", "radians")).lower()
        if units not in ("radians", "degrees"):
            raise MotionkitError(f"{document.origin}: meta.root_motion.root_yaw_units is {units!r}.")
        yaw = unwrap(yaw.deg2rad() if units == "degrees" else yaw)
    else:
        warnings.append("there is no RootYaw: the root bone was taken to turn by its own rotation.")
    degrees = table.get("forward_axis_offset_deg", 0.0) if table.get("planar_alignment_applied") else 0.0
    if not is_number(degrees):
        raise MotionkitError(f"{document.origin}: meta.root_motion.forward_axis_offset_deg is {degrees!r}.")
    if degrees:
        notes["forward offset"] = f"{degrees:g} degrees"
    return Root(position, yaw, velocity, math.radians(degrees), notes, tuple(warnings))


def turns_twice(rotations: Tensor, yaw: Tensor, axes: Axes) -> bool:
    """Whether the root bone's own rotation already holds RootYaw.

    Exporters write it relative to the component, which RootYaw turns. Only a clip that turns can show the opposite.

    Args:
        rotations: ``[T, 3, 3]`` of the root bone, in the file's axes.
        yaw: ``[T]`` radians.
        axes: The file's axes.
    """
    own = rotations @ rotations[:1].transpose(-1, -2)
    first, second = (axes.up + 1) % 3, (axes.up + 2) % 3
    turned = unwrap(
        torch.atan2(own[:, second, first] - own[:, first, second], own[:, first, first] + own[:, second, second])
    )
    change = yaw - yaw[0]
    return bool(change.abs().max() > _SWING and (turned - change).abs().max() < _SWAY)


def angular_velocity(rotations: Tensor, fps: float) -> Tensor:
    """Return ``[T, ..., 3]`` rad/s in the parent's frame: ``log(R_t R_{t-1}^T) fps``, frame 0 as frame 1.

    Only frames up to t are used. The whole angle is in it (the predictor's original had half).
    """
    if len(rotations) < 2:
        return rotations.new_zeros(*rotations.shape[:-2], 3)
    steps: Tensor = roma.rotmat_to_rotvec(rotations[1:] @ rotations[:-1].transpose(-1, -2)) * fps
    return torch.cat([steps[:1], steps])


def _velocity(document: Fields, axes: Axes) -> Tensor | None:
    name = document.has("RootVelocityXY", "RootVelocity")
    if not name:
        return None
    values = document.numbers(name, -1) * axes.unit
    if values.shape[1] == 3:
        return values[:, list(axes.ground)]
    if values.shape[1] != 2:
        raise MotionkitError(f"{document.origin}: {name} has {values.shape[1]} numbers per frame; 2 were expected.")
    spaces = document.meta.get("spaces")
    named = str(spaces.get("root_velocity_axes", "")).lower() if isinstance(spaces, Mapping) else ""
    ground = ["xyz"[axis] for axis in axes.ground]
    if named and sorted(named) != ground:
        raise MotionkitError(
            f"{document.origin}: meta.spaces.root_velocity_axes is {named!r}; the ground is {' and '.join(ground)}."
        )
    return values.flip(-1) if named and list(named) != ground else values
