"""Writers of motionkit's own formats, as `motionkit.formats.Writer` names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from motionkit.formats.amass import write_amass
from motionkit.formats.arrays import write_joints
from motionkit.formats.bvh import write_bvh
from motionkit.formats.format import WriteOptions
from motionkit.formats.glb import write_animated, write_glb
from motionkit.formats.mpl import write_mpl_npz
from motionkit.formats.native import write_native
from motionkit.motion.clip import Clip
from motionkit.motion.motion import Motion
from motionkit.motion.skeleton import HUMANML, KIT
from motionkit.rigs import named_rig, onto_rig, to_body


def write_bvh_clip(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write a BVH file."""
    write_bvh(path, rotations_of(clips[0]), unit=options.unit)


def write_glb_clip(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write a GLB file; its animation is called as the clip's part, else as the file."""
    motion, name = rotations_of(clips[0]), clips[0].part or path.stem
    if options.model:
        write_animated(path, Path(options.model), motion, name=name)
    else:
        write_glb(path, motion, name=name)


def write_mpl_clip(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write an npz file for the motion predictor."""
    (clip,) = clips
    write_mpl_npz(path, replace(clip, motion=rotations_of(clip)), source_hash=clip.notes.get("sha256", ""))


def write_amass_clip(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write AMASS' npz; joints without rotations are brought to the rig ``smpl``, which has SMPL's rest pose."""
    motion = clips[0].motion
    write_amass(path, motion if isinstance(motion, Motion) else onto_rig(motion, named_rig("smpl")).motion)


def write_native_clip(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write motionkit's npz."""
    (clip,) = clips
    write_native(path, clip, source_hash=clip.notes.get("sha256", ""))


def write_joints_clip(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write the joints of HumanML3D's body, or of KIT's."""
    motion = clips[0].motion
    body = KIT if motion.names == KIT.joint_names else HUMANML
    write_joints(path, to_body(motion, body, motion.fps))


def rotations_of(clip: Clip) -> Motion:
    """Return the motion of a clip for a writer with `Writer.rotations`."""
    assert isinstance(clip.motion, Motion), "they were solved before"
    return clip.motion
