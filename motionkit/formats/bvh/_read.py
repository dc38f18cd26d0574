"""Reading a BVH file into house space: metres, right-handed, Y up."""

from __future__ import annotations

import codecs
import math
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.formats.bvh._euler import euler_to_matrix
from motionkit.formats.bvh._frames import parse_first_frame, parse_frames
from motionkit.formats.bvh._hierarchy import POSITIONS, Hierarchy, parse_hierarchy
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._joint_map import JointMap
from motionkit.motion._motion import END, Motion
from motionkit.motion.frames import finite_frames, finite_part, finite_warning
from motionkit.rigs._detect import find_unit, find_up, z_up_to_y_up
from motionkit.rigs._units import UNITS

MAX_BYTES = 512 * 2**20
"""An hour of 60 joints at 60 fps has about 400 MB; a larger file is refused before memory is taken."""

_POSE_BYTES = 256 * 2**10
"""Bytes that hold the joints and one frame: 300 joints take about 40 kB."""

_PLAIN = ReadOptions()


def read_bvh(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read a BVH file.

    Rotation channels may be in any order, and in another one at each joint; position channels may be at any joint,
    where they replace its OFFSET. Windows line ends, tabs, lower-case keywords and names with blanks are fine.

    Args:
        path: The file.
        options: Unit and vertical axis, where they are known. Otherwise the axis is the one that the legs go down in
            the rest pose, and the unit is the one in which they have the length of a person's.

    Returns:
        One clip. Its `Motion` is in metres and Y up, with every frame and joint of the file; notes hold format, unit,
        fps, frames, joints, up. Where a channel is not finite the joint has NaN in that frame, with a warning.

    Raises:
        MotionkitError: The file is missing, too large, no BVH, cut short, its numbers of frames or channels do not
            agree, a value is no number, or no frame is finite; the message names the place.

    Example:
        >>> _ = Path("fall.bvh").write_text('''HIERARCHY
        ... ROOT Hips {
        ...   OFFSET 0 0 0
        ...   CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
        ...   End Site { OFFSET 0 10 0 }
        ... }
        ... MOTION
        ... Frames: 2
        ... Frame Time: 0.05
        ... 0 90 0 0 0 0
        ... 0 80 0 0 0 0''')
        >>> (clip,) = read_bvh(Path("fall.bvh"), ReadOptions(unit="cm"))
        >>> clip.motion.fps, clip.motion.positions()[:, 0, 1].tolist()
        (20.0, [0.9, 0.8])
    """
    if options.unit != "auto" and options.unit not in UNITS:
        raise MotionkitError(f"there is no unit {options.unit!r}.", fix=f"known: auto, {', '.join(UNITS)}.")
    if options.up not in ("auto", "y", "z"):
        raise MotionkitError(f"{options.up!r} is no vertical axis.", fix="known: auto, y, z.")
    data = _data(path)
    try:
        motion, finite, warnings = _parse(_text(data), options.joint_map)
    except MotionkitError as error:
        raise MotionkitError(f"{path}: {error.message}", why=error.why, fix=error.fix) from error
    clean = finite_part(motion, finite)
    up, doubt = (options.up, "") if options.up != "auto" else find_up(clean)
    unit, guess = (options.unit, "") if options.unit != "auto" else find_unit(clean)
    warnings += finite_warning(finite)
    warnings += [warning for warning in (doubt, guess) if warning]
    scale = UNITS[unit].metres
    motion = replace(motion, offsets=motion.offsets * scale, translations=motion.translations * scale)
    if up == "z":
        motion = z_up_to_y_up(motion)
    notes = {
        "format": "BVH",
        "unit": UNITS[unit].words,
        "fps": f"{motion.fps:g}",
        "frames": str(motion.frames),
        "joints": str(sum(not name.endswith(END) for name in motion.names)),
        "up": up,
    }
    return (Clip(motion, notes=notes, warnings=tuple(warnings)),)


def read_bvh_pose(path: Path, options: ReadOptions = _PLAIN) -> Motion:
    """Read the joints and the first frame of a BVH file, in its own unit and axes, and no more of the file.

    Args:
        path: The file.
        options: Names of the joints, where they are known.

    Returns:
        A motion of one frame: the rest pose where the first frame has a value that is not finite.

    Raises:
        MotionkitError: The file cannot be read, or its first `_POSE_BYTES` hold no whole frame.
    """
    text = _text(_data(path, _POSE_BYTES))
    tree, start = parse_hierarchy(text)
    fps, row = parse_first_frame(text, start, tree)
    values = torch.from_numpy(row)
    if bool(values.isfinite().all()):
        return _motion(tree, values, fps, options.joint_map)
    rest = _motion(tree, torch.zeros_like(values), fps, options.joint_map)
    return replace(rest, translations=rest.offsets[None])


def _data(path: Path, most: int = -1) -> bytes:
    try:
        with open_file(path, MAX_BYTES) as file:
            return file.read(most)
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read: {error.strerror or error}.") from error


def _text(data: bytes) -> str:
    if not data.strip():
        raise MotionkitError("it is not a BVH file.", why="it is empty.")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    if "\ufffd" in text[:65536] and not wide:
        # Japanese programs write joint names in their own code page; names in any other may not be read in it.
        japanese = data.decode("cp932", errors="replace")
        text = japanese if "左" in japanese and "右" in japanese else text
    if "\0" in text[:65536]:
        raise MotionkitError("it is not a BVH file.", why="it is not text.")
    # Old Macs end lines with a carriage return alone.
    return text if "\n" in text else text.replace("\r", "\n")


def _parse(text: str, table: JointMap | None) -> tuple[Motion, Tensor, list[str]]:
    """Return the motion as the file has it, a mask ``[T]`` of its finite frames, and warnings."""
    tree, start = parse_hierarchy(text)
    fps, rows = parse_frames(text, start, tree)
    values = torch.from_numpy(rows)
    return _motion(tree, values, fps, table), finite_frames(values), tree.warnings


def _motion(tree: Hierarchy, values: Tensor, fps: float, table: JointMap | None) -> Motion:
    """Return the motion of channel values ``[T, channels]``, in the file's unit and axes."""
    names = tuple(tree.names) if table is None else table.apply(tree.names)
    rotations, translations = _to_local(tree, values)
    offsets = torch.tensor(tree.offsets, dtype=torch.float64)
    return Motion(names, tuple(tree.parents), offsets, rotations, translations, fps)


def _to_local(tree: Hierarchy, values: Tensor) -> tuple[Tensor, Tensor]:
    """Turn channel values ``[T, channels]`` (degrees, the file's unit) into local motion.

    Returns:
        Rotations ``[T, J, 3, 3]`` (identity where a joint has no rotation channel) and translations ``[T, J, 3]``: the
        OFFSET, unless position channels replace it.
    """
    frames, joints = len(values), len(tree.names)
    translations = torch.tensor(tree.offsets, dtype=torch.float64).flatten().repeat(frames, 1)
    rotations = torch.zeros(frames, joints, 9, dtype=torch.float64)
    rotations[..., ::4] = 1.0
    # Joints of one rotation order are turned together: order -> (joints, columns of their values).
    groups: dict[str, tuple[list[int], list[list[int]]]] = {}
    moved: list[int] = []
    sources: list[int] = []
    column = 0
    for joint, channels in enumerate(tree.channels):
        order, columns = "", []
        for name in channels:
            if name in POSITIONS:
                moved.append(3 * joint + POSITIONS.index(name))
                sources.append(column)
            else:
                order += name[0]
                columns.append(column)
            column += 1
        if order:
            members, places = groups.setdefault(order, ([], []))
            members.append(joint)
            places.append(columns)
    translations[:, moved] = values[:, sources]
    for order, (members, places) in groups.items():
        angles = values[:, torch.tensor(places).T.flatten()].view(frames, len(order), len(members))
        rotations[:, members] = euler_to_matrix(order, (angles * (math.pi / 180)).unbind(dim=1))
    return rotations.view(frames, joints, 3, 3), translations.view(frames, joints, 3)
