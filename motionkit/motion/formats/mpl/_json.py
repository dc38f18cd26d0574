"""Reading motion that was exported from Unreal as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import Motion
from motionkit.motion.contacts import find_feet, soft_contacts
from motionkit.motion.formats.mpl._axes import Axes, axes_of
from motionkit.motion.formats.mpl._bones import UNKNOWN, Bones, find_bones
from motionkit.motion.formats.mpl._document import Document, frame_rate, open_document
from motionkit.motion.formats.mpl._evidence import read_action, read_contacts
from motionkit.motion.formats.mpl._root import Root, angular_velocity, read_root, turns_twice
from motionkit.motion.formats.mpl._sixes import Sixes, sixes_of

_PLAIN = ReadOptions()


def read_mpl_json(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read a motion exported from Unreal (``Frames`` with ``BoneRotations``), rich or as simple as the guide's.

    Rotations of bones are relative to their parents, the root bone's to the component, which ``RootYaw`` turns and
    which stands at ``RootPosition``; planted feet of exported clips stand still under this reading and under no other.
    The file's own ``RootYaw``, ``RootVelocityXY`` and ``TrajectoryDir`` are kept, in the file's axes, as the tracks
    ``root_yaw``, ``root_velocity`` and ``trajectory``; foot contacts and actions are the tracks ``contacts`` and
    ``action``.

    Args:
        path: The file; ``//`` comments are passed over.
        options: `rot6d_columns`, `hierarchy`, `offsets`, and `fps` for a file without.

    Returns:
        One clip. Notes say format, unit, fps, frames, joints, 6D columns, skeleton; warnings whatever was assumed.

    Raises:
        MotionkitError: The file is damaged (the message names line and column, or frame and field), is something
            else, or says things about itself that cannot be true together.
    """
    path = Path(path)
    document = open_document(path)
    fps, warnings = frame_rate(document, options.fps)
    axes, said = axes_of(document.meta, document.origin)
    warnings += said
    sixes, said = sixes_of(document.meta.get("rot6d_spec"), options.rot6d_columns, document.origin)
    warnings += said
    six = _rotations(document)
    bones = find_bones(document, six.shape[1], path, options)
    warnings += bones.warnings
    rotations, said = _matrices(six, sixes, bones)
    warnings += said
    root = read_root(document, axes, fps)
    warnings += root.warnings
    rotations, absolute = _local(rotations, bones, document)
    warnings += _doubt_columns(document, six, sixes, rotations, fps)
    if not absolute and turns_twice(rotations[:, bones.parents.index(-1)], root.yaw, axes):
        absolute = True
        warnings.append("the root bone turns with RootYaw by itself; the turn was counted once.")

    motion = _assemble(bones, rotations, root, axes, fps, absolute=absolute, origin=document.origin)
    tracks = {"root_yaw": root.yaw} if document.has("RootYaw") else {}
    if root.velocity is not None:
        tracks["root_velocity"] = root.velocity
    if document.has("TrajectoryDir"):
        tracks["trajectory"] = document.numbers("TrajectoryDir", -1, 2)
    action, said = read_action(document)
    warnings += said
    if action is not None:
        tracks["action"] = action
    contacts, said = _contacts(document, motion, known=bones.source != UNKNOWN)
    warnings += said
    if contacts is not None:
        tracks["contacts"] = contacts
    warnings += _count(document)
    notes = {
        "format": "Unreal JSON",
        "unit": str(document.meta.get("units") or "meters"),
        "fps": f"{fps:g}",
        "frames": str(motion.frames),
        "joints": str(len(bones.names)),
        "6D columns": sixes.columns.upper(),
        "handedness": axes.handedness,
        "skeleton": bones.source,
        **root.notes,
    }
    return (Clip(replace(motion, tracks=tracks), notes=notes, warnings=tuple(warnings)),)


def _assemble(
    bones: Bones, rotations: Tensor, root: Root, axes: Axes, fps: float, *, absolute: bool, origin: str
) -> Motion:
    """Put a motion together in house space from rotations and root in the file's axes.

    Args:
        bones: The skeleton, in the order of the rotations.
        rotations: ``[T, N, 3, 3]`` relative to the parents.
        root: The root motion.
        axes: The file's axes.
        fps: Frames per second.
        absolute: The root bone's rotation is relative to the world, not to the component.
        origin: The file, for messages.
    """
    order = bones.order(origin)
    place = {bone: index for index, bone in enumerate(order)}
    parents = tuple(place.get(bones.parents[bone], -1) for bone in order)
    names = tuple(bones.names[bone] for bone in order)
    offsets, rotations = bones.offsets[order].clone(), rotations[:, order].clone()
    shift, turn = axes.yaw(torch.tensor(-root.offset, dtype=torch.float64)), axes.yaw(root.yaw)
    offsets[0] = shift @ offsets[0]
    if not absolute:
        rotations[:, 0] = turn @ shift @ rotations[:, 0]
    translations = axes.points(offsets).repeat(len(rotations), 1, 1)
    translations[:, 0] = axes.points(root.position + turn @ offsets[0])
    return Motion(names, parents, axes.points(offsets), axes.turns(rotations), translations, fps)


def _rotations(document: Document) -> Tensor:
    name = document.has("BoneRotations", "BoneRotations6D")
    if not name:
        raise MotionkitError(
            f"{document.origin} has no BoneRotations in its frames.",
            why=f"frame 0 has {', '.join(map(str, document.rows[0])) or 'nothing'}.",
        )
    return document.numbers(name, -1, 6)


def _matrices(six: Tensor, sixes: Sixes, bones: Bones) -> tuple[Tensor, list[str]]:
    """Return rotation matrices, with those that have none replaced by the frame before; and warnings."""
    rotations = sixes.matrices(six)
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
    bent = ((sixes.numbers(rotations) - six).abs().amax(-1) > 0.02) & ~bad
    if bool(bent.any()):
        warnings.append(f"{int(bent.sum())} of {bent.numel()} rotations were not orthonormal by more than 0.02.")
    return rotations, warnings


def _local(rotations: Tensor, bones: Bones, document: Document) -> tuple[Tensor, bool]:
    """Make all rotations relative to their parents; also say whether the root's is relative to the world."""
    spaces = document.meta.get("spaces")
    space = str(spaces.get("bone_rotations", "local_6d")) if isinstance(spaces, Mapping) else "local_6d"
    kind = space.lower().removesuffix("_6d")
    if kind == "local":
        return rotations, False
    if kind not in ("component", "world"):
        raise MotionkitError(
            f"{document.origin}: meta.spaces.bone_rotations is {space!r}.",
            why="known spaces are local_6d, component_6d and world_6d.",
        )
    if bones.source == UNKNOWN:
        raise MotionkitError(
            f"{document.origin}: rotations in {kind} space cannot be made local without the bones' parents.",
            fix="pass --hierarchy FullHierarchy.json",
        )
    above = [max(parent, 0) for parent in bones.parents]
    local = rotations[:, above].transpose(-1, -2) @ rotations
    root = bones.parents.index(-1)
    local[:, root] = rotations[:, root]
    return local, kind == "world"


def _contacts(document: Document, motion: Motion, *, known: bool) -> tuple[Tensor | None, list[str]]:
    """Return contacts, made from the motion where the file has none and the feet are known."""
    contacts, warnings = read_contacts(document)
    lost = contacts.isnan()
    if not bool(lost.any()):
        return contacts, warnings
    what = "there is no foot evidence"
    if not bool(lost.all()):
        frame, foot = (int(number) for number in lost.nonzero()[0])
        what = (
            f"foot evidence is missing in {int(lost.any(-1).sum())} frame(s) "
            f"(the first: frame {frame}, {('left', 'right')[foot]})"
        )
    feet = find_feet(motion.names, motion.parents) if known else None
    if feet is None:
        if bool(lost.all()):
            return None, [*warnings, f"{what}, and no feet to take contacts from."]
        return contacts.nan_to_num(0.5), [*warnings, f"{what}; 0.5 was put there."]
    made = soft_contacts(motion.positions(), motion.fps, feet)
    return torch.where(lost, made, contacts), [*warnings, f"{what}; contacts there come from height and speed."]


def _doubt_columns(document: Document, six: Tensor, sixes: Sixes, rotations: Tensor, fps: float) -> list[str]:
    """Compare the rotations with the angular velocities of the file, which know their columns."""
    if not document.has("BoneAngularVelocities") or len(six) < 3:
        return []
    given = document.numbers("BoneAngularVelocities", rotations.shape[1], 3)

    def fit(candidate: Tensor) -> float:
        speed = angular_velocity(candidate, fps)
        speed = torch.cat([0.5 * (speed[1:-1] + speed[2:]), speed[-1:]])
        both = (speed * given[1:]).sum() / (speed.norm() * given[1:].norm()).clamp_min(1e-9)
        return float(both.nan_to_num())

    if float(given.square().mean().sqrt()) < 1e-3 or fit(rotations) > 0.7:
        return []
    best, columns = max(
        (fit(Sixes(first + second, sixes.rows).matrices(six)), first + second)
        for first, second in itertools.permutations("xyz", 2)
    )
    if best > 0.9:
        return [
            f"the file's angular velocities fit columns {columns.upper()}, not {sixes.columns.upper()}: look at the "
            f"motion, or pass --rot6d-columns {columns}."
        ]
    return ["the file's angular velocities do not fit its rotations."]


def _count(document: Document) -> list[str]:
    announced = document.head.get("NumFrames")
    if isinstance(announced, int) and announced != len(document.rows):
        return [f"NumFrames is {announced}, there are {len(document.rows)} frames."]
    return []
