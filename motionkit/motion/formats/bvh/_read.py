"""Reading a BVH file into house space: metres, right-handed, Y up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import Motion
from motionkit.motion.formats.bvh._parse import parse_bvh
from motionkit.motion.rigs._bodymap import guess_unit
from motionkit.motion.rigs._units import UNITS
from motionkit.motion.rigs._upright import rest_up, z_up_to_y_up

_PLAIN = ReadOptions()


def read_bvh(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read a BVH file.

    Args:
        path: The file; Windows line ends, tabs and lower-case keywords are fine.
        options: Unit and vertical axis, where the file's own bones do not tell them.

    Returns:
        One clip, its `Motion` in metres and Y up; notes say format, unit, fps, frames, joints, up.

    Raises:
        MotionkitError: The file is missing, is no BVH, is cut short, or holds values that are not finite.
    """
    file = parse_bvh(path)
    motion = Motion(file.names, file.parents, file.offsets, file.rotations, file.translations, file.fps)
    up = rest_up(motion) or "y" if options.up == "auto" else options.up
    unit = guess_unit(motion.names, motion.parents, motion.cut(0, 1).positions()) or "cm"
    if options.unit != "auto":
        unit = options.unit
    scale = UNITS[unit].metres
    motion = replace(motion, offsets=motion.offsets * scale, translations=motion.translations * scale)
    if up == "z":
        motion = z_up_to_y_up(motion)
    joints = sum(not name.endswith(" End") for name in motion.names)
    notes = {
        "format": "BVH",
        "unit": UNITS[unit].words,
        "fps": f"{motion.fps:g}",
        "frames": str(motion.frames),
        "joints": str(joints),
        "up": up,
    }
    return (Clip(motion, notes=notes),)
