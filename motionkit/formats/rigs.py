"""Skeletons of BVH and GLB files, for ``--rig``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.formats.format import RigFile
from motionkit.formats.glb import read_glb_rig
from motionkit.geometry import positions_from_bones
from motionkit.motion.motion import Motion
from motionkit.rigs.detect import rest_up


def bvh_rig(path: Path, settings: Mapping[str, str]) -> RigFile:
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
    motion = replace(motion, offsets=offsets)
    return RigFile(motion, turned=rest_up(motion) != "y")


def glb_rig(path: Path, settings: Mapping[str, str]) -> RigFile:
    """Return the rest pose of a GLB, VRM or glTF file, whose meshes are to move."""
    return RigFile(read_glb_rig(path), str(path))
