"""Writers of clips: one clip as a file of any format; a target, which writes a folder of clips, and its first kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from motionkit.clips.bodies import skeleton_mark
from motionkit.errors import MotionkitError
from motionkit.formats.format import Fit, WriteOptions, Writer
from motionkit.formats.table import FORMATS
from motionkit.motion.clip import Clip
from motionkit.motion.corpus.ids import plain_id
from motionkit.motion.motion import JointMotion, Motion

_PLAIN = WriteOptions()

LongClips = Literal["cut", "first", "drop"]
"""What a dataset gets of a longer clip: all of it in parts, its first frames, or nothing."""

MAX_FRAMES = 199
"""Feature frames of the longest clip that HumanML3D's loaders take; see `LongClips`."""


def write_file(path: Path, kind: str, clips: Sequence[Clip], options: WriteOptions = _PLAIN) -> Fit:
    """Write clips as one file.

    Args:
        path: The file.
        kind: Its format, one of `motionkit.formats.FORMATS`.
        clips: One clip; for pages and films several, which are shown side by side.
        options: What else the writer is told.

    Returns:
        How far joints were moved, if rotations were solved from their positions, and what the writer says.
    """
    if not writer_of(kind).rotations:
        return FORMATS[kind].write(path, clips, options)
    solved = [_with_rotations(clip.motion) for clip in clips]
    rotated = [replace(clip, motion=motion) for clip, (motion, _) in zip(clips, solved, strict=True)]
    written, fit = FORMATS[kind].write(path, rotated, options), solved[0][1]
    return Fit({**fit.figures, **written.figures}, written.worst or fit.worst, written.warnings)


def writer_of(kind: str) -> Writer:
    """Return how a format is written."""
    writer = FORMATS[kind].writer
    assert writer is not None, f"{kind} is not written"
    return writer


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
    skeleton: str = ""  # `skeleton_mark` where each skeleton gets a folder; else empty
    motion: str = ""  # Fingerprint of the features, for datasets: copies of a motion share it
    # Frames of the motion, for datasets, if it was longer than `MAX_FRAMES`: this is a part of it, or it was left out.
    long: int = 0
    warnings: tuple[str, ...] = ()  # What its writer says
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

    kind: str  # Format of the files
    # Frames per second; 0 keeps the clip's own; ``joints`` get 20, because their files do not store it.
    fps: float = 0.0
    min_frames: int = 1  # Shorter clips are left out
    options: WriteOptions = _PLAIN  # What else the writer is told

    @property
    def for_training(self) -> bool:
        """Return whether models train on the file; otherwise it keeps every frame of the source."""
        return writer_of(self.kind).training

    @property
    def rate(self) -> float:
        """Return the frames per second to write; 0 keeps the clip's own."""
        return self.fps or writer_of(self.kind).fps

    @property
    def shortest(self) -> str:
        """The shortest clip that is written, in words."""
        return f"{self.min_frames} frames (--min-frames)"

    def describe(self) -> dict[str, Any]:
        """Return kind, rate and unit."""
        return {"to": self.kind, "fps": self.fps, "unit": self.options.unit, "min_frames": self.min_frames}

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write ``folder/KEY.SUFFIX``."""
        if plain_id(key) != key:
            raise MotionkitError(f"{key!r} is not a name for a file.")
        clip = clip.resample(self.rate) if self.rate else clip
        frames = clip.motion.frames
        if frames < self.min_frames:
            return [Piece(key, frames, split=clip.split, group=clip.group, captions=len(clip.captions))]
        name = f"{key}{FORMATS[self.kind].suffix}"
        path = folder / name
        if path.exists():
            raise MotionkitError("another clip has this id already.")
        fit = write_file(path, self.kind, [clip], self.options)
        skeleton = skeleton_mark(clip.motion.names, clip.motion.parents) if writer_of(self.kind).apart else ""
        captions = len(clip.captions)
        piece = Piece(key, frames, (name,), clip.split, clip.group, captions, fit.figures, skeleton=skeleton)
        return [replace(piece, worst=f"{fit.worst} of {key}" if fit.worst else "", warnings=fit.warnings)]
