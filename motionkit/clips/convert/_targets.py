"""Writers of clips: their protocol and result, and the writer of one file for each clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from motionkit.clips._bodies import skeleton_mark
from motionkit.clips.convert._write_file import SUFFIX, FileKind, write_file
from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip
from motionkit.motion._skeleton import HUMANML
from motionkit.motion.corpus._ids import plain_id


@dataclass(frozen=True)
class Piece:
    """One clip as written, or left out for being too short.

    Attributes:
        key: Its id.
        frames: Frames written (feature rows for datasets).
        files: Paths of its files inside the output folder; empty when it was left out as too short.
        split: ``train``, ``val``, ``test`` or empty.
        group: All clips of a group are in the same split.
        captions: Number of captions.
        figures: Numbers worth keeping, such as ``skate`` (m/s), ``jerk`` (m/s^3), ``residual_max`` (m).
        clip: Id of the clip that it was made from, whole, in part or mirrored.
        skeleton: What tells skeletons apart, for ``mpl``; empty elsewhere.
    """

    key: str
    frames: int
    files: tuple[str, ...] = ()
    split: str = ""
    group: str = ""
    captions: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    clip: str = ""
    skeleton: str = ""


class Target(Protocol):
    """Writes clips; sent to worker processes, so it must pickle."""

    @property
    def for_training(self) -> bool:
        """Return whether models train on the files: a rest pose before the motion is then cut off."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return all that the files depend on besides the clips, as plain data."""
        ...

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write one clip into `folder`.

        Raises:
            MotionkitError: The clip cannot be written in this way.
            OSError: The files cannot be written.
        """
        ...


@dataclass(frozen=True)
class FileTarget:
    """One file per clip.

    Attributes:
        kind: Format of the files.
        fps: Frames per second; 0 keeps the clip's own; ``joints`` get 20, because their files do not store it.
        unit: Unit of BVH files.
        min_frames: Shorter clips are left out.
    """

    kind: FileKind
    fps: float = 0.0
    unit: Literal["m", "cm"] = "cm"
    min_frames: int = 1

    @property
    def for_training(self) -> bool:
        """Return whether models train on the file; otherwise it keeps every frame of the source."""
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
        skeleton = skeleton_mark(clip.motion.names, clip.motion.parents) if self.kind == "mpl" else ""
        captions = len(clip.captions)
        return [Piece(key, frames, (name,), clip.split, clip.group, captions, figures, skeleton=skeleton)]
