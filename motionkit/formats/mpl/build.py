"""From the fields of an exported motion, of JSON or npz, to a motion in house space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl.bones import UNKNOWN, Bones, find_bones, measure_bones
from motionkit.formats.mpl.conventions import UNREAL, Axes, Rot6d, axes_of, columns_warning, rot6d_of
from motionkit.formats.mpl.fields import Fields, frame_rate, is_number
from motionkit.geometry import unwrap
from motionkit.motion.clip import ReadOptions, Up
from motionkit.motion.motion import Motion, check_size
from motionkit.page.wording import count
from motionkit.rigs.upright import turn_motion, weigh

_DERIVED = ("BoneAngularVelocities", "BoneVelocities")
"""Additional fields of some exporters, which are recomputed from rotations and places."""

_ROOT_TRACKS = ("root_yaw", "root_velocity", "trajectory")

_FAR = 1e6
"""Metres from the origin beyond which a position is damaged."""


@dataclass(frozen=True)
class Built:
    """A motion, and notes on how it was read."""

    # In house space, with the tracks ``root_yaw``, ``root_velocity`` and ``trajectory`` if the file has them.
    motion: Motion
    known: bool  # Whether the skeleton is known; without it positions are meaningless
    notes: dict[str, str]  # Facts for the record
    warnings: tuple[str, ...]


def build(fields: Fields, path: Path, options: ReadOptions, *, trusted: bool = False) -> Built:
    """Build a motion.

    The tracks are the file's values in Unreal's axes (x forward, y right), which files from Unreal already use:
    ``root_yaw`` ``[T]`` radians, ``root_velocity`` ``[T, 2]`` m/s, ``trajectory`` ``[T, K, 2]``.

    Args:
        fields: The file's fields.
        path: The file; tables of the skeleton are searched for next to it.
        options: As in `read_mpl_json`.
        trusted: The file is one of motionkit, so its declared conventions are not checked against the motion.
    """
    fps, warnings = frame_rate(fields, options.fps)
    axes, more = axes_of(fields.meta, fields.origin)
    warnings += more
    rot6d, more = rot6d_of(fields.meta.get("rot6d_spec"), options.rot6d_columns, fields.origin)
    warnings += more
    six = _rotations(fields)
    check_size(len(six), six.shape[1])
    warnings += [] if trusted else columns_warning(six, rot6d)
    bones = find_bones(fields, six.shape[1], path, options)
    order = bones.order(fields.origin)
    rotations, more = _matrices(six, rot6d, bones)  # [T, N, 3, 3], in the file's axes and bone order
    warnings += more
    root = read_root(fields, axes, fps)
    warnings += root.warnings
    rotations, absolute = _local(rotations, bones, fields)
    shift = axes.yaw(torch.tensor(-root.offset, dtype=torch.float64))
    component = root.position, axes.yaw(root.yaw) @ shift  # place [T, 3] and turn [T, 3, 3] in the world
    if absolute:
        # R_root was relative to the world: R = R_component^T R_root.
        rotations[:, order[0]] = component[1].transpose(-1, -2) @ rotations[:, order[0]]
    bones, place = (bones, None) if trusted else measure_bones(fields, bones, order, rotations, axes.unit)
    warnings += bones.warnings
    motion = _assemble(bones, place, order, rotations, component, axes, fps)
    motion.offsets[0] = axes.points(shift @ bones.offsets[order[0]])
    if not bool((motion.translations.abs() < _FAR).all()):
        raise MotionkitError(f"{fields.origin}: its numbers are too large to be places of a body.")
    motion = replace(motion, tracks=_own_tracks(fields, root, axes))
    motion, stands, more = _upright(motion, axes, axes.named("y") if trusted and options.up == "auto" else options.up)
    warnings += more
    notes = {
        "unit": str(fields.meta.get("units") or "meters"),
        "fps": f"{fps:g}",
        "frames": str(motion.frames),
        "joints": str(len(bones.names)),
        "6D columns": rot6d.columns.upper(),
        "handedness": axes.handedness,
        "skeleton": bones.source,
        **root.notes,
        **stands,
    }
    if idle := [name for name in _DERIVED if fields.has(name)]:
        notes["not read"] = f"{', '.join(idle)} (they follow from the rotations)"
    return Built(motion, bones.source != UNKNOWN, notes, tuple(warnings))


def _upright(motion: Motion, axes: Axes, up: Up) -> tuple[Motion, dict[str, str], list[str]]:
    """Turn a motion whose up is not the one of its file's axes; return it, notes and warnings.

    Args:
        motion: The motion in house space, by the file's axes.
        axes: Those.
        up: Direction of up in the file's own coordinates; ``auto`` weighs the body.
    """
    default = axes.named("y")
    said = ""
    if up == "auto":
        places = axes.points_back(motion.positions())
        up, said = weigh(places, motion.names, motion.parents, motion.fps, default)
    warnings = [said] if said else []
    if up == default:
        return motion, {}, warnings
    if lost := [name for name in _ROOT_TRACKS if name in motion.tracks]:
        warnings.append(f"{', '.join(lost)} of the file are of other axes than the body and were left out.")
    kept = {name: values for name, values in motion.tracks.items() if name not in _ROOT_TRACKS}
    # Bones at rest have axes of their own and stay.
    return replace(turn_motion(motion, axes.house(up), "y"), tracks=kept), {"up": up}, warnings


def _assemble(
    bones: Bones,  # the skeleton, in the order of the rotations
    local_root: Tensor | None,  # [T, 3] metres, the root bone relative to the component; None for its offset
    order: list[int],  # the bones with parents first
    rotations: Tensor,  # [T, N, 3, 3] relative to the parents, the root's to the component
    component: tuple[Tensor, Tensor],  # its place [T, 3] and turn [T, 3, 3] in the world
    axes: Axes,  # the file's axes
    fps: float,  # frames per second
) -> Motion:
    """Build a motion in house space from rotations and root in the file's axes."""
    origin, turn = component
    place = {bone: index for index, bone in enumerate(order)}
    parents = tuple(place.get(bones.parents[bone], -1) for bone in order)
    names = tuple(bones.names[bone] for bone in order)
    offsets, rotations = bones.offsets[order], rotations[:, order].clone()
    # The root bone in the world: R = R_component R_root at x_component + R_component offset.
    rotations[:, 0] = turn @ rotations[:, 0]
    translations = axes.points(offsets).repeat(len(rotations), 1, 1)
    local_root = offsets[0].expand(len(rotations), 3) if local_root is None else local_root
    translations[:, 0] = axes.points(origin + (turn @ local_root[..., None]).squeeze(-1))
    return Motion(names, parents, axes.points(offsets), axes.turns(rotations), translations, fps)


def _rotations(fields: Fields) -> Tensor:
    name = fields.has("BoneRotations", "BoneRotations6D")
    if not name:
        raise MotionkitError(
            f"{fields.origin} has no BoneRotations in its frames.",
            why="a motion needs six numbers per bone and frame.",
        )
    return fields.numbers(name, -1, 6)


def _matrices(six: Tensor, rot6d: Rot6d, bones: Bones) -> tuple[Tensor, list[str]]:
    """Return rotation matrices, degenerate ones replaced by the frame before; and warnings."""
    rotations = rot6d.matrices(six)
    warnings = []
    bad = ~rotations.isfinite().all(-1).all(-1)
    if bool(bad.any()):
        frame, bone = (int(number) for number in bad.nonzero()[0])
        warnings.append(
            f"{count(int(bad.sum()), 'rotation')} with two collinear columns (the first: frame {frame}, "
            f"{bones.names[bone]}); the frame before was used."
        )
        eye = torch.eye(3, dtype=rotations.dtype)
        rotations[0] = torch.where(bad[0, :, None, None], eye, rotations[0])
        for frame in bad.any(-1).nonzero()[:, 0].tolist():
            if frame:
                rotations[frame] = torch.where(bad[frame, :, None, None], rotations[frame - 1], rotations[frame])
    bent = ((rot6d.numbers(rotations) - six).abs().amax(-1) > 0.02) & ~bad
    if bool(bent.any()):
        warnings.append(f"{int(bent.sum())} of {bent.numel()} rotations were not orthonormal by more than 0.02.")
    return rotations, warnings


def _local(rotations: Tensor, bones: Bones, fields: Fields) -> tuple[Tensor, bool]:
    """Make all rotations relative to their parents; also return whether the root's is relative to the world."""
    spaces = fields.meta.get("spaces")
    space = str(spaces.get("bone_rotations", "local_6d")) if isinstance(spaces, Mapping) else "local_6d"
    kind = space.lower().removesuffix("_6d")
    if kind == "local":
        return rotations, False
    if kind not in ("component", "world"):
        raise MotionkitError(
            f"{fields.origin}: meta.spaces.bone_rotations is {space!r}.",
            why="known spaces are local_6d, component_6d and world_6d.",
        )
    if bones.source == UNKNOWN:
        raise MotionkitError(
            f"{fields.origin}: rotations in {kind} space cannot be made local without the bones' parents.",
            fix="pass --hierarchy FullHierarchy.json",
        )
    # One space for all bones: R_local = R_parent^T R_bone.
    above = [max(parent, 0) for parent in bones.parents]
    local = rotations[:, above].transpose(-1, -2) @ rotations
    root = bones.parents.index(-1)
    local[:, root] = rotations[:, root]
    return local, kind == "world"


def _own_tracks(fields: Fields, root: RootMotion, axes: Axes) -> dict[str, Tensor]:
    """Return the file's root values in Unreal's axes."""

    def level(values: Tensor) -> Tensor:
        lifted = values.new_zeros(*values.shape[:-1], 3)
        lifted[..., list(axes.ground)] = values
        return UNREAL.points_back(axes.points(lifted))[..., :2]

    tracks = {}
    if fields.has("RootYaw"):
        quarter = UNREAL.turns_back(axes.turns(axes.yaw(torch.tensor(torch.pi / 2, dtype=torch.float64))))
        tracks["root_yaw"] = root.yaw * quarter[1, 0].round()
    if root.velocity is not None:
        tracks["root_velocity"] = level(root.velocity)
    if fields.has("TrajectoryDir"):
        tracks["trajectory"] = level(fields.numbers("TrajectoryDir", -1, 2))
    return tracks


@dataclass(frozen=True)
class RootMotion:
    """The root motion of a file, in the file's axes."""

    position: Tensor  # ``[T, 3]`` metres; on the ground below the root bone in Unreal's exports
    yaw: Tensor  # ``[T]`` radians, unwrapped
    velocity: Tensor | None  # ``[T, 2]`` m/s along the two horizontal axes, or None if the file has none
    offset: float  # Radians by which the exporter turned the root's path against the poses
    notes: dict[str, str]  # How it was read
    warnings: tuple[str, ...]


def read_root(fields: Fields, axes: Axes, fps: float) -> RootMotion:
    """Read RootPosition, RootYaw and RootVelocityXY.

    A missing position is the sum of velocities (one frame's velocity leads to the next frame), a missing yaw is 0.
    ``meta.root_motion.forward_axis_offset_deg`` with ``planar_alignment_applied`` means that the exporter has turned
    the path, but not the poses, by that angle: planted feet of such files stand still only if the poses are turned by
    its opposite.
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
        warnings.append("there is neither RootPosition nor RootVelocityXY: the body stays in place.")
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
