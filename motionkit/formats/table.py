"""The motion formats that can be read, and recognising a file's format by its suffix and content."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from numpy.lib import format as npy

from motionkit.documents import open_file, read_json
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip, ReadOptions, choose_part
from motionkit.motion.motion import other_rate

Read = Callable[[Path, ReadOptions], Sequence[Clip]]


@dataclass(frozen=True)
class Format:
    """A format that can be read."""

    name: str  # Short name, for records
    summary: str  # Description, for lists and messages
    suffix: str  # Suffix of its files
    target: str  # ``module:function`` of the reader, imported on first use
    options: tuple[str, ...] = ()  # Which of the `ReadOptions` its reader uses
    tables: tuple[str, ...] = ()  # Files that the reader looks for in the folder of a file of this format
    also: tuple[str, ...] = ()  # Further suffixes of its files
    retimed: bool = False  # Its frames are counted, so that a rate that is given replaces the file's after reading

    @property
    def suffixes(self) -> tuple[str, ...]:
        """All suffixes of its files."""
        return (self.suffix, *self.also)

    def read(self, path: Path, options: ReadOptions) -> Sequence[Clip]:
        """Read a file of this format."""
        module, _, function = self.target.partition(":")
        reader: Read = getattr(importlib.import_module(f"motionkit.formats.{module}"), function)
        clips = reader(path, options)
        if options.clip and "clip" in self.options and (len(clips) > 1 or not clips[0].part):
            clips = (clips[choose_part([clip.part for clip in clips], options.clip, str(path))],)
        return [at_rate(clip, options.fps) for clip in clips] if self.retimed and options.fps else clips


TABLES = ("FullHierarchy.json", "FullOffsets.json")
"""File names of the tables of a whole skeleton, which Unreal's exporter writes next to motions."""

_PLACED = ("up", "unit")
_OF_SCENES = ("fps", *_PLACED, "joint_map", "clip")
_EXPORTED = ("fps", "up", "rot6d_columns", "hierarchy", "offsets")

FORMATS = {
    entry.name: entry
    for entry in (
        Format("bvh", "BVH", ".bvh", "bvh:read_bvh", ("fps", *_PLACED, "joint_map"), retimed=True),
        Format("glb", "GLB", ".glb", "glb:read_glb", _OF_SCENES, also=(".gltf", ".vrm", ".vrma"), retimed=True),
        Format("fbx", "FBX (by a Blender of yours)", ".fbx", "fbx:read_fbx", _OF_SCENES, retimed=True),
        Format("unreal-json", "Unreal / MPL motion JSON", ".json", "mpl.read_json:read_mpl_json", _EXPORTED, TABLES),
        Format("mpl-npz", "MPL npz", ".npz", "mpl.npz:read_mpl_npz", _EXPORTED, TABLES),
        Format("amass", "AMASS / SMPL npz", ".npz", "amass:read_amass", ("fps", "up", "smpl_model")),
        Format("motionkit", "motionkit npz", ".npz", "native:read_native", ("fps",), retimed=True),
        Format("joints", "joints .npy [T, 22 or 21, 3]", ".npy", "arrays:read_joints", ("fps", *_PLACED, "clip")),
        Format("features", "HumanML3D / KIT features .npy", ".npy", "arrays:read_features_file", ("fps",)),
        Format("mdm-results", "MDM results.npy", ".npy", "arrays:read_mdm_results", ("fps", *_PLACED, "clip")),
    )
}
SUFFIXES = frozenset(suffix for entry in FORMATS.values() for suffix in entry.suffixes)


def at_rate(clip: Clip, fps: float) -> Clip:
    """Return a clip with its frames at another rate than its file says, and a warning that names both."""
    motion = clip.motion
    if fps == motion.fps:
        return clip
    faster = fps / motion.fps
    tracks = {name: values * faster if name == "root_velocity" else values for name, values in motion.tracks.items()}
    return replace(
        clip,
        motion=replace(motion, fps=fps, tracks=tracks),
        timed=tuple(replace(one, start=one.start / faster, end=one.end / faster) for one in clip.timed),
        notes={**clip.notes, "fps": f"{fps:g}"},
        warnings=(*clip.warnings, other_rate(motion.fps, fps)),
    )


def read_clips(path: Path | str, options: ReadOptions | None = None) -> Sequence[Clip]:
    """Read a motion file of any known format.

    Args:
        path: The file.
        options: Facts that the file does not hold; see `ReadOptions`.

    Returns:
        Its clips; one for most formats. Motions are in metres, right-handed, Y up.

    Example:
        >>> import numpy as np
        >>> from motionkit.starter import generate
        >>> np.save("walk.npy", generate("walk", frames=40).joints)
        >>> (clip,) = read_clips("walk.npy")
        >>> clip.notes["format"], clip.motion.frames
        ('joint array', 40)
    """
    path = Path(path)
    if not path.is_file():
        raise MotionkitError(f"there is no file {path}.", fix="check the path.")
    if (motion_format := recognise(path)) is None:
        raise MotionkitError(f"{path} does not hold a motion of a known format.", why=known(path.suffix.lower()))
    return motion_format.read(path, options or ReadOptions())


def known(suffix: str) -> str:
    """Return the formats of files with a suffix, in words."""
    return "; ".join(f"{entry.suffix}: {entry.summary}" for entry in FORMATS.values() if suffix in entry.suffixes) + "."


def recognise(path: Path) -> Format | None:
    """Return the format of a file, or None for a file that holds no motion (another JSON, an array of statistics).

    Only names and headers are read. A damaged file gets the format that its suffix suggests, whose reader raises the
    error that names the damage.
    """
    suffix = path.suffix.lower()
    if suffix == ".bvh":
        return FORMATS["bvh"]
    if suffix in FORMATS["glb"].suffixes:
        return FORMATS["glb"]
    if suffix == ".fbx":
        return FORMATS["fbx"]
    if suffix == ".json":
        return FORMATS["unreal-json"] if _is_motion_json(path) else None
    if suffix == ".npz":
        return _npz(path)
    if suffix == ".npy":
        return _npy(path)
    raise MotionkitError(
        f"{path} is in no format that is read here.",
        why=f"convert reads {', '.join(entry.summary for entry in FORMATS.values())}, folders of them, and starter.",
    )


def _is_motion_json(path: Path) -> bool:
    """Whether a JSON file has frames; an empty or broken one counts, so that its reader raises the error."""
    try:
        with open_file(path) as file:
            tail = b""
            while chunk := file.read(1 << 20):
                if b'"Frames"' in tail + chunk:
                    return True
                tail = chunk[-16:]
        return read_json(path, object) in ({}, [])
    except (OSError, MotionkitError):
        return True


def _npz(path: Path) -> Format | None:
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            keys = {name.removesuffix(".npy") for name in archive.namelist()}
    # zipfile raises half a dozen kinds of error for a damaged file; the reader names the damage.
    except Exception:
        return FORMATS["motionkit"]
    if "motionkit_schema" in keys:
        return FORMATS["motionkit"]
    if {"rot6d", "bone_rot6d"} & keys:
        return FORMATS["mpl-npz"]
    if {"poses", "pose_body", "body_pose"} & keys:
        return FORMATS["amass"]
    return None


def _npy(path: Path) -> Format | None:
    try:
        with open_file(path) as file:
            version = npy.read_magic(file)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = header(file)
    # A header is parsed as Python, which raises many kinds of error; the reader names the damage.
    except Exception:
        return FORMATS["joints"]
    if dtype.hasobject:
        return FORMATS["mdm-results"]
    if len(shape) == 2 and shape[-1] in (263, 251):
        return FORMATS["features"]
    return FORMATS["joints"] if len(shape) >= 2 else None
