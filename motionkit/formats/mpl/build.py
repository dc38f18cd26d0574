"""From the fields of an exported motion, of JSON or npz, to a motion in house space."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.formats.mpl.fields import (
    UNREAL,
    Axes,
    Fields,
    Rot6d,
    axes_of,
    columns_warning,
    frame_rate,
    is_number,
    rot6d_of,
)
from motionkit.formats.table import TABLES
from motionkit.geometry import accumulate_rotations, unwrap
from motionkit.motion.clip import ReadOptions
from motionkit.motion.motion import Motion, check_size
from motionkit.rigs.rest import unit_called

# Skeletons of exported motions, and the tables FullHierarchy.json and FullOffsets.json that hold a whole one.


HIERARCHY, OFFSETS = TABLES

UNKNOWN = "unknown"
"""`Bones.source` of a motion without a known skeleton."""


@dataclass(frozen=True)
class Bones:
    """A skeleton in the order of the file's rotations, which need not put parents first."""

    names: tuple[str, ...]  # N bone names
    parents: tuple[int, ...]  # Parent of each, -1 for the root
    offsets: Tensor  # ``[N, 3]`` metres from the parent at rest, in the file's axes
    source: str  # Where it was found, for the record; `UNKNOWN` without any
    warnings: tuple[str, ...] = ()
    tree: bool = True  # Whether the parents are known

    def warned(self, warning: str) -> Bones:
        """Return the skeleton with one more warning."""
        return replace(self, warnings=(*self.warnings, warning))

    def order(self, origin: str) -> list[int]:
        """Return the bones in topological order, parents first."""
        roots = [bone for bone, parent in enumerate(self.parents) if parent < 0]
        if len(roots) != 1:
            raise MotionkitError(
                f"{origin}: the skeleton has {len(roots)} bones without a parent; one, the root, was expected.",
                why=", ".join(self.names[bone] for bone in roots[:5]),
            )
        children: dict[int, list[int]] = {}
        for bone, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(bone)
        order, waiting = [], list(roots)
        while waiting:
            bone = waiting.pop()
            order.append(bone)
            waiting.extend(reversed(children.get(bone, [])))
        if len(order) < len(self.parents):
            lost = next(bone for bone in range(len(self.parents)) if bone not in set(order))
            raise MotionkitError(f"{origin}: bone {self.names[lost]} is its own ancestor.")
        if all(parent < bone for bone, parent in enumerate(self.parents)):
            return list(range(len(order)))
        return order


@dataclass(frozen=True)
class BoneTables:
    """The two tables: parent and offset (metres) of each bone of a whole skeleton, in order."""

    parent: dict[str, str]
    offset: dict[str, Sequence[float]]
    source: str  # Names of the files
    asked: bool  # Whether the user named them

    @classmethod
    def beside(cls, path: Path, options: ReadOptions) -> BoneTables | None:
        """Read the tables that `options` name, else those in the folder of a file; None if there are none."""
        places = [path.parent, path.parent / "config", path.parent.parent / "config"]
        files = {
            name: given or next((place / name for place in places if (place / name).exists()), None)
            for name, given in ((HIERARCHY, options.hierarchy), (OFFSETS, options.offsets))
        }
        parent: dict[str, str] = {}
        offset: dict[str, Sequence[float]] = {}
        if file := files[OFFSETS]:
            parent, offset = _read_offsets(file)
        if file := files[HIERARCHY]:
            listed = _read_hierarchy(file)
            parent = listed if len(listed) >= len(parent) else parent | listed
        source = " and ".join(str(file.name) for file in files.values() if file)
        asked = options.hierarchy is not None or options.offsets is not None
        return cls(parent, offset, source, asked) if parent else None

    def bones(self, names: tuple[str, ...], count: int) -> Bones | str:
        """Return the skeleton of the named bones, of all if there are no names; or a text about what is wrong."""
        if not names:
            names = tuple(self.parent)
            if len(names) != count:
                return f"it has {len(names)} bones and the motion {count}, without names to match them."
        if unknown := [name for name in names if name not in self.parent]:
            return f"it has no bone {unknown[0]}."
        index = {name: place for place, name in enumerate(names)}
        parents, offsets, skipped = [], [], []
        for name in names:
            above, offset = self.parent[name], self.offset.get(name, (0.0, 0.0, 0.0))
            seen = {name}
            while above in self.parent and above not in index and above not in seen:
                seen.add(above)
                above = self.parent[above]
                if above in self.parent:
                    skipped.append(name)
            parents.append(index.get(above, -1))
            offsets.append(offset)
        warnings = []
        if short := [name for name in names if name not in self.offset]:
            warnings.append(f"{self.source} gives no offset for {len(short)} bone(s); they have no length: {short[0]}")
        if left_out := [name for name in dict.fromkeys(skipped) if parents[index[name]] >= 0]:
            warnings.append(
                f"bones between {left_out[0]} and its parent are not in the motion; lengths there are too short."
            )
        return Bones(names, tuple(parents), torch.tensor(offsets, dtype=torch.float64), self.source, tuple(warnings))


def _read_hierarchy(path: Path) -> dict[str, str]:
    data = read_json(path, object)
    if not isinstance(data, dict) or not data or not all(isinstance(value, str) for value in data.values()):
        raise MotionkitError(f"{path} is not a table of bones and their parents.", why='expected {"hand": "arm", ...}.')
    return data


def _read_offsets(path: Path) -> tuple[dict[str, str], dict[str, Sequence[float]]]:
    """Return parent and offset in metres of each bone."""
    data = read_json(path, object)
    listed = data.get("Bones") if isinstance(data, dict) else None
    if not isinstance(listed, list) or not listed or not isinstance(data, dict):
        raise MotionkitError(f"{path} is not a table of bone offsets.", why="expected Bones: a list of Name, Offset.")
    unit = unit_called(str(data.get("Units", "centimeters")))
    if unit is None:
        raise MotionkitError(f"{path}: Units is {data['Units']!r}.", why="known units are meters, centimeters, ...")
    parent: dict[str, str] = {}
    offset: dict[str, Sequence[float]] = {}
    for place, bone in enumerate(listed):
        try:
            name, values = str(bone["Name"]), [float(value) * unit.metres for value in bone["Offset"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise MotionkitError(f"{path}: bone {place} has no Name or no Offset of three numbers.") from error
        if len(values) != 3 or not torch.tensor(values).isfinite().all():
            raise MotionkitError(f"{path}: Offset of bone {name} is not three finite numbers.")
        if name in parent:
            raise MotionkitError(f"{path}: two bones are called {name}.")
        parent[name], offset[name] = str(bone.get("Parent", "None")), values
    return parent, offset


# Finding the skeleton of an exported motion: in the file, in tables next to it, or from positions of its bones.


_SPREAD = 0.01
"""Metres by which a measured bone may change its place in its parent, by rounding or elastic joints."""

_FITTING = 0.8
"""Part of the bones that must keep their place in their parents; a few (IK targets, twists) are animated."""


def find_bones(fields: Fields, count: int, path: Path, options: ReadOptions) -> Bones:
    """Find the skeleton of a motion of `count` bones.

    ``meta.skeleton`` comes first; the rest is taken from the two tables that the options name, or that are in the
    file's folder or in a folder ``config`` there or one level up. Without any of them the bones are called ``bone_00``,
    ``bone_01``, ... and have no length: rotations can be used, positions cannot.
    """
    skeleton = fields.meta.get("skeleton")
    skeleton = skeleton if isinstance(skeleton, Mapping) else {}
    names = _names(skeleton.get("bone_names"), count, fields.origin)
    parents = _parents(skeleton.get("parents"), count, fields.origin)
    offsets = _offsets(skeleton, count, fields.origin)
    if names and parents and offsets is not None:
        return Bones(names, parents, offsets, "meta.skeleton")
    tables = BoneTables.beside(path, options)
    if tables is None:
        return _bare(names, parents, offsets, count)
    matched = tables.bones(names, count)
    if isinstance(matched, str):
        if tables.asked:
            raise MotionkitError(f"{fields.origin}: {tables.source} does not fit: {matched}")
        bare = _bare(names, parents, offsets, count)
        return replace(bare, warnings=(f"{tables.source} next to the file does not fit: {matched}", *bare.warnings))
    warnings = matched.warnings
    if parents and parents != matched.parents:
        warnings = (*warnings, f"parents are those of meta.skeleton; {tables.source} has others.")
    return Bones(
        matched.names,
        parents or matched.parents,
        matched.offsets if offsets is None else offsets,
        f"meta.skeleton and {tables.source}" if skeleton else tables.source,
        warnings,
    )


def _names(listed: object, count: int, origin: str) -> tuple[str, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(name, str) and name for name in listed):
        raise MotionkitError(f"{origin}: meta.skeleton.bone_names is not a list of names.")
    _check_count(len(listed), count, "bone_names", origin)
    if len(set(listed)) < len(listed):
        double = next(name for name in listed if listed.count(name) > 1)
        raise MotionkitError(f"{origin}: two bones of meta.skeleton are called {double}.")
    return tuple(listed)


def _parents(listed: object, count: int, origin: str) -> tuple[int, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(type(parent) is int and -1 <= parent < count for parent in listed):
        raise MotionkitError(
            f"{origin}: meta.skeleton.parents is not a list of places of bones, -1 for the root, each below {count}."
        )
    _check_count(len(listed), count, "parents", origin)
    return tuple(listed)


def _offsets(skeleton: Mapping[str, Any], count: int, origin: str) -> Tensor | None:
    for name, unit in (("ref_local_offsets_m", 1.0), ("ref_local_offsets_cm", 0.01)):
        if (listed := skeleton.get(name)) is not None:
            try:
                offsets = torch.tensor(listed, dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise MotionkitError(f"{origin}: meta.skeleton.{name} is not a table of numbers.") from error
            _check_count(len(offsets) if offsets.ndim else 0, count, name, origin)
            if offsets.shape != (count, 3) or not offsets.isfinite().all():
                raise MotionkitError(f"{origin}: meta.skeleton.{name} is not {count} times 3 finite numbers.")
            return offsets * unit
    return None


def _check_count(size: int, count: int, name: str, origin: str) -> None:
    if size != count:
        raise MotionkitError(
            f"{origin}: meta.skeleton.{name} has {size} entries, BoneRotations has {count} bones.",
            why="each bone has one rotation per frame.",
        )


def _bare(names: tuple[str, ...], parents: tuple[int, ...], offsets: Tensor | None, count: int) -> Bones:
    missing = [
        word for word, known in (("names", names), ("parents", parents), ("lengths", offsets is not None)) if not known
    ]
    warning = (
        f"the file does not have its bones' {' and '.join(missing)}, and there is no {HIERARCHY} and {OFFSETS} next to "
        "it: rotations are right, positions are not known."
    )
    digits = max(2, len(str(count - 1)))
    return Bones(
        names or tuple(f"bone_{bone:0{digits}d}" for bone in range(count)),
        parents or (-1, *[0] * (count - 1)),
        torch.zeros(count, 3, dtype=torch.float64) if offsets is None else offsets,
        UNKNOWN,
        (warning,),
        tree=bool(parents),
    )


def measure_bones(
    fields: Fields,  # the file's fields
    bones: Bones,  # the skeleton, in the order of the rotations
    order: list[int],  # its bones with parents first
    rotations: Tensor,  # [T, N, 3, 3] relative to the parents, the root's to the component
    unit: float,  # metres per unit of the file
) -> tuple[Bones, Tensor | None]:
    """Take the lengths of an unknown skeleton from BonePositions (``bone_pos`` of an npz).

    The positions are relative to the component. In the frame of its parent a bone must keep its place over all frames;
    else the positions are not used.

    Returns:
        The skeleton; and ``[T, 3]`` metres, the root bone relative to the component, None if it keeps its place.
    """
    name = fields.has("BonePositions")
    if not name or bones.source != UNKNOWN:
        return bones, None
    if not bones.tree:
        return bones.warned(f"{name} cannot be used without the bones' parents."), None
    positions = fields.numbers(name, len(bones.names), 3) * unit
    parents = [bones.parents[bone] for bone in order]
    places = [order.index(parent) if parent >= 0 else -1 for parent in parents]
    world = torch.empty_like(rotations)
    world[:, order] = accumulate_rotations(rotations[:, order], places)
    above = [max(parent, 0) for parent in bones.parents]
    # Bone b in its parent p: R_p^T (x_b - x_p), the row vector (x_b - x_p) R_p.
    inside = ((positions - positions[:, above]).unsqueeze(-2) @ world[:, above]).squeeze(-2)
    offsets = inside.median(dim=0).values
    root = bones.parents.index(-1)
    others = [bone for bone in range(len(bones.names)) if bone != root]
    fitting = (inside - offsets).norm(dim=-1).amax(dim=0)[others] < _SPREAD
    if float(fitting.double().mean()) < _FITTING:
        return bones.warned(f"{name} do not fit the rotations and were not used."), None
    offsets[root] = positions[:, root].median(dim=0).values
    warning = f"the file does not have the lengths of its bones; they were taken from {name}."
    return replace(bones, offsets=offsets, source=name, warnings=(warning,)), positions[:, root]


# Place and direction of the root of an exported motion.


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


_DERIVED = ("BoneAngularVelocities", "BoneVelocities")
"""Additional fields of some exporters, which are recomputed from rotations and places."""

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
            f"{int(bad.sum())} rotation(s) have two collinear columns (the first: frame {frame}, "
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
