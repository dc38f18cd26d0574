"""The rig of ``--rig`` or ``--names``: a known one by name, or the user's file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from motionkit.errors import MotionkitError, did_you_mean
from motionkit.formats.bvh import read_bvh
from motionkit.formats.fbx import read_fbx_rig
from motionkit.formats.glb import read_glb_rig
from motionkit.formats.table import FORMATS
from motionkit.geometry import positions_from_bones
from motionkit.motion.clip import read_joint_map
from motionkit.motion.motion import Motion
from motionkit.rigs.detect import rest_up
from motionkit.rigs.named import NAMES, Rig, Vector, named_rig


def read_rig(text: str, table: Path | None = None, blender: str = "", *, flag: str = "--rig") -> Rig:
    """Return a rig.

    Args:
        text: A name, or the path of a BVH file, or of a GLB, VRM, glTF or FBX file with a skeleton.
        table: Names of the body's joints in that file, as `JointMap`.
        blender: The Blender that reads FBX files.
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
    suffix = path.suffix.lower()
    glb = suffix in FORMATS["glb"].suffixes
    if not glb and suffix not in (".bvh", ".fbx"):
        fix = did_you_mean(text, NAMES) or f"known: {', '.join(NAMES)}, or the path of a .bvh, .glb, .vrm or .fbx file."
        raise MotionkitError(f"{flag} {text} is not a rig.", fix=fix, choices=list(NAMES))
    if not path.is_file():
        raise MotionkitError(f"{flag} {text}: there is no such file.", fix="check the path.")
    model = path if glb else None
    if suffix == ".fbx":
        motion, model = read_fbx_rig(path, blender)
    else:
        motion = read_glb_rig(path) if glb else _bvh_rest(path)
    known = () if table is None else read_joint_map(table).apply(motion.names)
    if known == motion.names:
        raise MotionkitError(f"{table} names no joint of {path}.", why=f"they are {', '.join(motion.names[:40])}.")
    offsets = tuple(cast("Vector", tuple(row)) for row in motion.offsets.tolist())
    turned = rest_up(motion) != "y" and suffix == ".bvh"
    turns = tuple(tuple(row) for row in motion.rotations[0].flatten(1).tolist()) if turned else ()
    return Rig(text, motion.names, motion.parents, offsets, known, turns, "" if model is None else str(model))


def _bvh_rest(path: Path) -> Motion:
    """Return the first frame of a BVH file, with the root at the height at which the rest pose stands on the ground."""
    motion = read_bvh(path)[0].motion
    assert isinstance(motion, Motion), "BVH files have rotations"
    finite = motion.rotations.isfinite().flatten(1).all(1)
    motion = motion.cut(int(finite.long().argmax())).cut(0, 1)
    if not bool(motion.rotations.isfinite().all()):
        raise MotionkitError(f"{path} has no frame that is finite.")
    offsets = motion.offsets.clone()
    offsets[0] = 0.0
    lowest = float(positions_from_bones(offsets, motion.parents)[:, 1].min())
    offsets[0] = torch.tensor([0.0, -lowest, 0.0], dtype=torch.float64)
    return replace(motion, offsets=offsets)
