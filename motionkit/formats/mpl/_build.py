"""From the fields of an exported motion, wherever they are kept, to a motion in house space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._bones import UNKNOWN, Bones
from motionkit.formats.mpl._conventions import UNREAL, Axes, Rot6d, axes_of, columns_warning, rot6d_of
from motionkit.formats.mpl._fields import Fields, frame_rate
from motionkit.formats.mpl._find_bones import find_bones, measure_bones
from motionkit.formats.mpl._root import RootMotion, read_root
from motionkit.motion._clip import ReadOptions
from motionkit.motion._motion import Motion, check_size

_DERIVED = ("BoneAngularVelocities", "BoneVelocities")
"""Fields that older and newer exporters write besides, and that are made of rotations and places anew."""

_FAR = 1e6
"""Metres from the origin beyond which a position is damaged."""


@dataclass(frozen=True)
class Built:
    """A motion, and notes on how it was read.

    Attributes:
        motion: In house space, with the tracks ``root_yaw``, ``root_velocity`` and ``trajectory`` where the file has
            them.
        known: The skeleton is known; without it positions mean nothing.
        notes: Facts for the record.
        warnings: What a person should look at.
    """

    motion: Motion
    known: bool
    notes: dict[str, str]
    warnings: tuple[str, ...]


def build(fields: Fields, path: Path, options: ReadOptions, *, trusted: bool = False) -> Built:
    """Build a motion.

    The tracks are the file's own values brought into Unreal's axes (x forward, y right), which they are in already in
    files from Unreal: ``root_yaw`` ``[T]`` radians, ``root_velocity`` ``[T, 2]`` m/s, ``trajectory`` ``[T, K, 2]``.

    Args:
        fields: The file's fields.
        path: The file; tables of the skeleton are looked for beside it.
        options: As in `read_mpl_json`.
        trusted: The file is motionkit's own, so its declared conventions are not checked against the motion.

    Raises:
        MotionkitError: A field is damaged or contradicts another.
    """
    fps, warnings = frame_rate(fields, options.fps)
    axes, said = axes_of(fields.meta, fields.origin)
    warnings += said
    rot6d, said = rot6d_of(fields.meta.get("rot6d_spec"), options.rot6d_columns, fields.origin)
    warnings += said
    six = _rotations(fields)
    check_size(len(six), six.shape[1])
    warnings += [] if trusted else columns_warning(six, rot6d)
    bones = find_bones(fields, six.shape[1], path, options)
    order = bones.order(fields.origin)
    rotations, said = _matrices(six, rot6d, bones)  # [T, N, 3, 3], in the file's axes and bone order
    warnings += said
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
    notes = {
        "unit": str(fields.meta.get("units") or "meters"),
        "fps": f"{fps:g}",
        "frames": str(motion.frames),
        "joints": str(len(bones.names)),
        "6D columns": rot6d.columns.upper(),
        "handedness": axes.handedness,
        "skeleton": bones.source,
        **root.notes,
    }
    if idle := [name for name in _DERIVED if fields.has(name)]:
        notes["not read"] = f"{', '.join(idle)} (they follow from the rotations)"
    return Built(motion, bones.source != UNKNOWN, notes, tuple(warnings))


def _assemble(
    bones: Bones,
    seen: Tensor | None,
    order: list[int],
    rotations: Tensor,
    component: tuple[Tensor, Tensor],
    axes: Axes,
    fps: float,
) -> Motion:
    """Put a motion together in house space from rotations and root in the file's axes.

    Args:
        bones: The skeleton, in the order of the rotations.
        seen: ``[T, 3]`` metres, the root bone seen from the component; None where it keeps its offset there.
        order: The bones with parents first.
        rotations: ``[T, N, 3, 3]`` relative to the parents, the root's to the component.
        component: Its place ``[T, 3]`` and turn ``[T, 3, 3]`` in the world.
        axes: The file's axes.
        fps: Frames per second.
    """
    where, turn = component
    place = {bone: index for index, bone in enumerate(order)}
    parents = tuple(place.get(bones.parents[bone], -1) for bone in order)
    names = tuple(bones.names[bone] for bone in order)
    offsets, rotations = bones.offsets[order], rotations[:, order].clone()
    # The root bone in the world: R = R_component R_root at x_component + R_component offset.
    rotations[:, 0] = turn @ rotations[:, 0]
    translations = axes.points(offsets).repeat(len(rotations), 1, 1)
    seen = offsets[0].expand(len(rotations), 3) if seen is None else seen
    translations[:, 0] = axes.points(where + (turn @ seen[..., None]).squeeze(-1))
    return Motion(names, parents, axes.points(offsets), axes.turns(rotations), translations, fps)


def _rotations(fields: Fields) -> Tensor:
    name = fields.has("BoneRotations", "BoneRotations6D")
    if not name:
        raise MotionkitError(
            f"{fields.origin} has no BoneRotations in its frames.",
            why="six numbers per bone and frame are what a motion is made of here.",
        )
    return fields.numbers(name, -1, 6)


def _matrices(six: Tensor, rot6d: Rot6d, bones: Bones) -> tuple[Tensor, list[str]]:
    """Return rotation matrices, with those that have none replaced by the frame before; and warnings."""
    rotations = rot6d.matrices(six)
    warnings = []
    bad = ~rotations.isfinite().all(-1).all(-1)
    if bool(bad.any()):
        frame, bone = (int(number) for number in bad.nonzero()[0])
        warnings.append(
            f"{int(bad.sum())} rotation(s) have two columns on one line (the first: frame {frame}, "
            f"{bones.names[bone]}); the frame before was kept there."
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
    """Return the file's own root values in Unreal's axes."""

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
