"""Where the root of an exported motion is and which way it faces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._conventions import Axes
from motionkit.formats.mpl._fields import Fields, is_number
from motionkit.geometry._yaw import unwrap


@dataclass(frozen=True)
class RootMotion:
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


def read_root(fields: Fields, axes: Axes, fps: float) -> RootMotion:
    """Read RootPosition, RootYaw and RootVelocityXY.

    A missing position is summed up from the velocity (one frame's velocity leads to the next frame), a missing yaw is
    0. ``meta.root_motion.forward_axis_offset_deg`` with ``planar_alignment_applied`` means that the exporter has turned
    the path, and not the poses, by that angle: planted feet of such files stand still only when the poses are turned
    by its opposite.

    Raises:
        MotionkitError: A field is damaged, or an option of `meta` is not known.
    """
    table = fields.meta.get("root_motion")
    table = table if isinstance(table, Mapping) else {}
    warnings, notes = [], {}
    frames = fields.frames
    velocity = _velocity(fields, axes)
    if fields.has("RootPosition"):
        position = fields.numbers("RootPosition", 3) * axes.unit
    elif velocity is not None:
        steps = torch.zeros(frames, 3, dtype=torch.float64)
        steps[1:, list(axes.ground)] = velocity[:-1] / fps
        position = steps.cumsum(0)
        notes["root"] = "summed up from its velocity"
    else:
        position = torch.zeros(frames, 3, dtype=torch.float64)
        warnings.append("there is neither RootPosition nor RootVelocityXY: the body stays where it is.")
    yaw = torch.zeros(frames, dtype=torch.float64)
    if fields.has("RootYaw"):
        yaw = fields.numbers("RootYaw")
        units = str(table.get("root_yaw_units", "radians")).lower()
        if units not in ("radians", "degrees"):
            raise MotionkitError(f"{fields.origin}: meta.root_motion.root_yaw_units is {units!r}.")
        yaw = unwrap(yaw.deg2rad() if units == "degrees" else yaw)
    else:
        warnings.append("there is no RootYaw: the root bone was taken to turn by its own rotation.")
    degrees = table.get("forward_axis_offset_deg", 0.0) if table.get("planar_alignment_applied") else 0.0
    if not is_number(degrees):
        raise MotionkitError(f"{fields.origin}: meta.root_motion.forward_axis_offset_deg is {degrees!r}.")
    if degrees:
        notes["forward offset"] = f"{degrees:g} degrees"
    return RootMotion(position, yaw, velocity, math.radians(degrees), notes, tuple(warnings))


def _velocity(fields: Fields, axes: Axes) -> Tensor | None:
    name = fields.has("RootVelocityXY", "RootVelocity")
    if not name:
        return None
    values = fields.numbers(name, -1) * axes.unit
    if values.shape[1] == 3:
        return values[:, list(axes.ground)]
    if values.shape[1] != 2:
        raise MotionkitError(f"{fields.origin}: {name} has {values.shape[1]} numbers per frame; 2 were expected.")
    spaces = fields.meta.get("spaces")
    named = str(spaces.get("root_velocity_axes", "")).lower() if isinstance(spaces, Mapping) else ""
    ground = ["xyz"[axis] for axis in axes.ground]
    if named and sorted(named) != ground:
        raise MotionkitError(
            f"{fields.origin}: meta.spaces.root_velocity_axes is {named!r}; the ground is {' and '.join(ground)}."
        )
    return values.flip(-1) if named and list(named) != ground else values
