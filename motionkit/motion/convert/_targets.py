"""What a clip can be written as, one file each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip
from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT
from motionkit.motion.convert._outcome import Piece
from motionkit.motion.corpus._ids import plain_id

FileKind = Literal["mpl", "bvh", "glb", "mp4", "gif", "html", "joints", "npz"]
SUFFIX = {
    "mpl": ".npz",
    "bvh": ".bvh",
    "glb": ".glb",
    "mp4": ".mp4",
    "gif": ".gif",
    "html": ".html",
    "joints": ".npy",
    "npz": ".npz",
}
PICTURES = ("mp4", "gif", "html")
"""Kinds that can show several clips in one file."""


class Target(Protocol):
    """Writes clips; it is sent to worker processes, so it pickles."""

    @property
    def for_training(self) -> bool:
        """Return whether a rest pose before the motion would spoil it."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return everything that its files depend on besides the clips, as plain data."""
        ...

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write one clip into `folder`.

        Raises:
            MotionkitError: The clip cannot be written in this way.
            OSError: The disk refuses.
        """
        ...


@dataclass(frozen=True)
class FileTarget:
    """One file per clip.

    Attributes:
        kind: What is written.
        fps: Frames per second; 0 keeps the clip's own, except for ``joints``, whose files do not say and get 20.
        unit: Unit of BVH files.
        min_frames: Shorter clips are left out.
    """

    kind: FileKind
    fps: float = 0.0
    unit: Literal["m", "cm"] = "cm"
    min_frames: int = 1

    @property
    def for_training(self) -> bool:
        """Return whether a model will learn from the file; otherwise it keeps every frame of the source."""
        return self.kind in ("mpl", "joints")

    @property
    def rate(self) -> float:
        """Return the frames per second to write; 0 keeps the clip's own."""
        return self.fps or (HUMANML.fps if self.kind == "joints" else 0.0)

    def describe(self) -> dict[str, Any]:
        """Return kind, rate and unit."""
        return {"to": self.kind, "fps": self.fps, "unit": self.unit, "min_frames": self.min_frames}

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write ``folder/KEY.SUFFIX``."""
        if plain_id(key) != key:
            raise MotionkitError(f"{key!r} is no name for a file.")
        clip = clip.resample(self.rate) if self.rate else clip
        frames = clip.motion.frames
        if frames < self.min_frames:
            return [Piece(key, frames, split=clip.split, group=clip.group, captions=len(clip.captions))]
        name = f"{key}{SUFFIX[self.kind]}"
        path = folder / name
        if path.exists():
            raise MotionkitError("another clip has this id already.")
        figures = write_file(path, self.kind, clip, unit=self.unit)
        return [Piece(key, frames, (name,), clip.split, clip.group, len(clip.captions), figures)]


def write_file(path: Path, kind: FileKind, clip: Clip, *, unit: Literal["m", "cm"] = "cm") -> dict[str, float]:
    """Write one clip as one file.

    Args:
        path: The file.
        kind: What it is.
        clip: The clip, at the rate that is wanted.
        unit: Unit of a BVH file.

    Returns:
        ``residual_mean``, ``residual_max`` (metres) and ``flips`` where rotations had to be found for bare joints.
    """
    motion = clip.motion
    if kind in PICTURES:
        write_pictures(path, [(clip, path.stem)])
        return {}
    if kind == "joints":
        from motionkit.motion.formats.arrays import write_joints
        from motionkit.motion.rigs import to_body

        own = KIT if motion.names == KIT.joint_names else HUMANML
        write_joints(path, to_body(motion, own, motion.fps))
        return {}
    if kind == "npz":
        from motionkit.motion.formats.native import write_native

        write_native(path, clip, source_hash=clip.notes.get("sha256", ""))
        return {}
    solid, figures = solid_motion(motion)
    if kind == "bvh":
        from motionkit.motion.formats.bvh import write_bvh

        write_bvh(path, solid, unit=unit)
    elif kind == "glb":
        from motionkit.motion.formats.glb import write_glb

        write_glb(path, solid, name=path.stem)
    else:
        from motionkit.motion.formats.mpl import write_mpl_npz

        write_mpl_npz(path, replace(clip, motion=solid), source_hash=clip.notes.get("sha256", ""))
    return figures


def solid_motion(motion: Motion | JointMotion) -> tuple[Motion, dict[str, float]]:
    """Return a motion with rotations, and how well it fits where they had to be found."""
    if isinstance(motion, Motion):
        return motion, {}
    from motionkit.motion.rigs import solve

    solved = solve(motion)
    figures = {
        "residual_mean": solved.residual_mean,
        "residual_max": solved.residual_max,
        "flips": float(solved.flips),
    }
    return solved.motion, figures


def write_pictures(path: Path, shown: Sequence[tuple[Clip, str]]) -> None:
    """Show clips in one page or film, each with a title for where it has no caption."""
    from motionkit.motion.player import track_of, write_player

    tracks = [
        track_of(
            clip.motion,
            clip.captions[0].text if clip.captions else title,
            segments=[(caption.text, caption.start, caption.end) for caption in clip.timed],
        )
        for clip, title in shown
    ]
    if path.suffix.lower() == ".html":
        write_player(path, tracks, title=path.stem)
    else:
        from motionkit.motion.formats.video import write_video

        write_video(path, tracks)


def kind_of(path: Path) -> FileKind | None:
    """Return what a file name asks for by its ending, or None for a folder."""
    by_suffix: dict[str, FileKind] = {SUFFIX[kind]: kind for kind in get_args(FileKind) if kind != "mpl"}
    return by_suffix.get(path.suffix.lower())
