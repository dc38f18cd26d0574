"""Writers of clips: one clip as a file of any format; a target, which writes a folder of clips, and its first kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from motionkit.clips.bodies import skeleton_mark
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip
from motionkit.motion.corpus.ids import plain_id
from motionkit.motion.motion import JointMotion, Motion
from motionkit.motion.skeleton import HUMANML, KIT

if TYPE_CHECKING:
    from motionkit.player import PlayerTrack

FileKind = Literal["mpl", "bvh", "glb", "fbx", "mp4", "gif", "html", "joints", "npz"]

SUFFIX = {
    "mpl": ".npz",
    "bvh": ".bvh",
    "glb": ".glb",
    "fbx": ".fbx",
    "mp4": ".mp4",
    "gif": ".gif",
    "html": ".html",
    "joints": ".npy",
    "npz": ".npz",
}

PICTURES = ("mp4", "gif", "html")
"""Kinds that can show several clips in one file."""

SEAMS = "seams"
"""Note of a clip on the seams of the blocks that it was made of, a sentence."""

WORDING = "wording"
"""Note of a clip on what the texts that it was made of are read as, sentences."""

LongClips = Literal["cut", "first", "drop"]
"""What a dataset gets of a longer clip: all of it in parts, its first frames, or nothing."""

MAX_FRAMES = 199
"""Feature frames of the longest clip that HumanML3D's loaders take; see `LongClips`."""


@dataclass(frozen=True)
class Fit:
    """How well a skeleton with bones of one length follows joints."""

    # ``residual_mean``, ``residual_max`` (metres) and ``flips``; empty where no rotations were solved.
    figures: dict[str, float] = field(default_factory=dict)
    worst: str = ""  # Joint and frame of the largest residual


def write_file(
    path: Path, kind: FileKind, clip: Clip, *, unit: Literal["m", "cm"] = "cm", model: str = "", blender: str = ""
) -> Fit:
    """Write one clip as one file; as GLB or FBX with the meshes of `model`, a GLB file whose skeleton the clip is on.

    FBX files are written by `blender`; see `motionkit.formats.fbx.find_blender`. The animation of a GLB or FBX file is
    called as the clip's part, else as the file.

    Returns:
        How far joints were moved, if rotations were solved from their positions.
    """
    motion = clip.motion
    if kind in PICTURES:
        write_pictures(path, [(clip, path.stem)])
        return Fit()
    if kind == "joints":
        from motionkit.formats.arrays import write_joints
        from motionkit.rigs import to_body

        body = KIT if motion.names == KIT.joint_names else HUMANML
        write_joints(path, to_body(motion, body, motion.fps))
        return Fit()
    if kind == "npz":
        from motionkit.formats.native import write_native

        write_native(path, clip, source_hash=clip.notes.get("sha256", ""))
        return Fit()
    rotated, fit = _with_rotations(motion)
    name = clip.part or path.stem
    if kind == "bvh":
        from motionkit.formats.bvh import write_bvh

        write_bvh(path, rotated, unit=unit)
    elif kind == "glb" and model:
        from motionkit.formats.glb import write_animated

        write_animated(path, Path(model), rotated, name=name)
    elif kind == "glb":
        from motionkit.formats.glb import write_glb

        write_glb(path, rotated, name=name)
    elif kind == "fbx":
        from motionkit.formats.fbx import write_fbx

        write_fbx(path, rotated, blender=blender, model=model, name=name)
    else:
        from motionkit.formats.mpl import write_mpl_npz

        write_mpl_npz(path, replace(clip, motion=rotated), source_hash=clip.notes.get("sha256", ""))
    return fit


def _with_rotations(motion: Motion | JointMotion) -> tuple[Motion, Fit]:
    """Return the motion with rotations, and the residuals if they were solved from joint positions."""
    if isinstance(motion, Motion):
        return motion, Fit()
    from motionkit.rigs import solve

    solved = solve(motion)
    figures = {
        "residual_mean": solved.residual_mean,
        "residual_max": solved.residual_max,
        "flips": float(solved.flips),
    }
    return solved.motion, Fit(figures, solved.worst)


def write_pictures(path: Path, shown: Sequence[tuple[Clip, str]]) -> None:
    """Write clips as one page or film; the title is used for a clip without caption."""
    from motionkit.player import write_player

    tracks = [shown_track(clip, title) for clip, title in shown]
    if path.suffix.lower() == ".html":
        write_player(path, tracks, title=path.stem)
    else:
        from motionkit.player.video import write_video

        write_video(path, tracks)


def shown_track(clip: Clip, title: str) -> PlayerTrack:
    """Return a clip as a track of the player; `title` is used if it has no caption."""
    from motionkit.player import track_of

    return track_of(
        clip.motion,
        clip.captions[0].text if clip.captions else title,
        segments=[(caption.text, caption.start, caption.end) for caption in clip.timed],
        notes=[clip.notes[key] for key in (WORDING, SEAMS) if key in clip.notes],
    )


def kind_of(path: Path) -> FileKind | None:
    """Return the format of a file name's ending, or None for a folder."""
    by_suffix: dict[str, FileKind] = {SUFFIX[kind]: kind for kind in get_args(FileKind) if kind != "mpl"}
    return by_suffix.get(path.suffix.lower())


@dataclass(frozen=True)
class Piece:
    """One clip as written, or left out for being too short."""

    key: str  # Its id
    frames: int  # Frames written (feature rows for datasets)
    files: tuple[str, ...] = ()  # Paths of its files inside the output folder; empty if it was left out as too short
    split: str = ""  # ``train``, ``val``, ``test`` or empty
    group: str = ""  # All clips of a group are in the same split
    captions: int = 0  # Number of captions
    # Such as ``skate`` (m/s), ``jerk`` (m/s^3), ``residual_max`` (m).
    figures: dict[str, float] = field(default_factory=dict)
    worst: str = ""  # Where rotations solved from joints are furthest off, in words
    clip: str = ""  # Id of the clip that it was made from
    skeleton: str = ""  # `skeleton_mark`, for ``mpl``; else empty
    motion: str = ""  # Fingerprint of the features, for datasets: copies of a motion share it
    # Frames of the motion, for datasets, if it was longer than `MAX_FRAMES`: this is a part of it, or it was left out.
    long: int = 0
    copied: int = 0  # Captions without times of a motion that was cut: each of its parts has them


class Target(Protocol):
    """Writes clips; sent to worker processes, so it must pickle."""

    @property
    def for_training(self) -> bool:
        """Return whether models train on the files: a rest pose before the motion is then cut off."""
        ...

    @property
    def rate(self) -> float:
        """Return the frames per second to write; 0 keeps the clip's own."""
        ...

    @property
    def shortest(self) -> str:
        """Return the shortest clip that is written, in words."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return all that the files depend on besides the clips, as plain data."""
        ...

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write one clip into `folder`."""
        ...


@dataclass(frozen=True)
class FileTarget:
    """One file per clip."""

    kind: FileKind  # Format of the files
    # Frames per second; 0 keeps the clip's own; ``joints`` get 20, because their files do not store it.
    fps: float = 0.0
    unit: Literal["m", "cm"] = "cm"  # Unit of BVH files
    min_frames: int = 1  # Shorter clips are left out
    model: str = ""  # GLB file whose meshes move with the clips; see `write_file`
    blender: str = ""  # The Blender that writes FBX files

    @property
    def for_training(self) -> bool:
        """Return whether models train on the file; otherwise it keeps every frame of the source."""
        return self.kind in ("mpl", "joints")

    @property
    def rate(self) -> float:
        """Return the frames per second to write; 0 keeps the clip's own."""
        return self.fps or (HUMANML.fps if self.kind == "joints" else 0.0)

    @property
    def shortest(self) -> str:
        """The shortest clip that is written, in words."""
        return f"{self.min_frames} frames (--min-frames)"

    def describe(self) -> dict[str, Any]:
        """Return kind, rate and unit."""
        return {"to": self.kind, "fps": self.fps, "unit": self.unit, "min_frames": self.min_frames}

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write ``folder/KEY.SUFFIX``."""
        if plain_id(key) != key:
            raise MotionkitError(f"{key!r} is not a name for a file.")
        clip = clip.resample(self.rate) if self.rate else clip
        frames = clip.motion.frames
        if frames < self.min_frames:
            return [Piece(key, frames, split=clip.split, group=clip.group, captions=len(clip.captions))]
        name = f"{key}{SUFFIX[self.kind]}"
        path = folder / name
        if path.exists():
            raise MotionkitError("another clip has this id already.")
        fit = write_file(path, self.kind, clip, unit=self.unit, model=self.model, blender=self.blender)
        skeleton = skeleton_mark(clip.motion.names, clip.motion.parents) if self.kind == "mpl" else ""
        captions = len(clip.captions)
        piece = Piece(key, frames, (name,), clip.split, clip.group, captions, fit.figures, skeleton=skeleton)
        return [replace(piece, worst=f"{fit.worst} of {key}" if fit.worst else "")]
