"""The rig of ``--rig`` or ``--names``: a known one by name, or the user's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from motionkit.errors import MotionkitError, did_you_mean
from motionkit.formats.table import others, readers
from motionkit.motion.clip import read_joint_map
from motionkit.plugins import INSTALL_FIX, either, packages
from motionkit.rigs.named import NAMES, Rig, Vector, named_rig


def read_rig(
    text: str, table: Path | None = None, settings: Mapping[str, str] | None = None, *, flag: str = "--rig"
) -> Rig:
    """Return a rig.

    Args:
        text: A name, or the path of a file with a skeleton: BVH, GLB, VRM, glTF, or what packages read.
        table: Names of the body's joints in that file, as `JointMap`.
        settings: Settings of formats, as of `motionkit.motion.ReadOptions`.
        flag: The option that names it, for messages.

    Example:
        >>> read_rig("mixamo").names[0]
        'mixamorig:Hips'
    """
    if text in NAMES:
        if table is not None:
            raise MotionkitError(f"--rig-map does not act with {flag} {text}.", fix="it is for a rig of your own.")
        return named_rig(text)
    path = Path(text)
    form = next((form for form in readers() if form.reader and form.reader.rig and form.matches(path)), None)
    if form is None:
        raise _no_rig(path, text, flag)
    if not path.is_file():
        raise MotionkitError(f"{flag} {text}: there is no such file.", fix="check the path.")
    found = form.rig(path, settings or {})
    motion = found.motion
    known = () if table is None else read_joint_map(table).apply(motion.names)
    if known == motion.names:
        raise MotionkitError(f"{table} names no joint of {path}.", why=f"they are {', '.join(motion.names[:40])}.")
    offsets = tuple(cast("Vector", tuple(row)) for row in motion.offsets.tolist())
    turns = tuple(tuple(row) for row in motion.rotations[0].flatten(1).tolist()) if found.turned else ()
    return Rig(text, motion.names, motion.parents, offsets, known, turns, found.model)


def rig_endings() -> list[str]:
    """Return the usual endings of files with a rig."""
    return [".bvh", ".glb", ".vrm", *(form.suffix for form in others() if form.reader and form.reader.rig)]


def _no_rig(path: Path, text: str, flag: str) -> MotionkitError:
    fix = did_you_mean(text, NAMES) or f"known: {', '.join(NAMES)}, or the path of a {either(rig_endings())} file."
    why = ""
    if absent := packages.owner_of_format(path.suffix.lower()):
        why, fix = f"the package {absent} reads it, and is not installed.", INSTALL_FIX
    return MotionkitError(f"{flag} {text} is not a rig.", why=why, fix=fix, choices=list(NAMES))
