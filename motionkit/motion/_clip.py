"""A motion with its captions, features and notes; options of readers; sources that load such clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._joint_map import JointMap
from motionkit.motion._motion import JointMotion, Motion, in_short
from motionkit.motion.corpus._caption_table import CaptionRow
from motionkit.motion.corpus._captions import Caption, captions_within
from motionkit.motion.corpus._ids import plain_id

Unit = Literal["auto", "m", "dm", "cm", "mm", "in", "asf"]
Columns = Literal["auto", "xy", "xz", "yz", "yx", "zx", "zy"]


@dataclass(frozen=True)
class ReadOptions:
    """Facts about a motion file that the file itself may not hold.

    Attributes:
        up: Vertical axis of BVH files and joint arrays; ``auto`` looks at the rest pose.
        unit: Unit of BVH files and joint arrays; ``auto`` looks at the length of the legs, ``asf`` is CMU's (5.64 cm).
        fps: Frames per second of files without (joint arrays); 0 takes 20.
        rot6d_columns: Which two columns of a rotation matrix the six numbers of a JSON file are; ``auto`` takes what
            ``meta.rot6d_spec`` names, else xy.
        hierarchy: FullHierarchy.json for JSON files without a skeleton.
        offsets: FullOffsets.json for the same.
        smpl_model: The user's own SMPL file for AMASS motions; None uses a default body.
        joint_map: Names of the body's joints in BVH files.
    """

    up: Literal["auto", "y", "z"] = "auto"
    unit: Unit = "auto"
    fps: float = 0.0
    rot6d_columns: Columns = "auto"
    hierarchy: Path | None = None
    offsets: Path | None = None
    smpl_model: Path | None = None
    joint_map: JointMap | None = None


@dataclass(frozen=True)
class Clip:
    """A motion as read from somewhere.

    Attributes:
        motion: The motion itself.
        features: ``[T, D]`` float32 when the clip came as HumanML3D or KIT features, a row for each frame of the
            motion and at its rate; written back as they are.
        captions: Captions of all of it.
        timed: Captions of a part of the clip, with their seconds.
        split: ``train``, ``val``, ``test`` or empty.
        group: Clips of one group never meet in two splits; empty for a group of its own.
        part: Appended to the source's key (with ``_``) where one source holds several clips; empty otherwise.
        notes: Facts for the record: format, unit, frames per second of the file.
        warnings: What a person should look at, one sentence each.
        splits: All splits that list it where that is more than one, which is a leak; `split` is then the last of them.
        fault: Why it cannot be used, where others of the same source can; then nothing in `motion` is finite.

    Raises:
        MotionkitError: There is not one row of features per frame of the motion.

    Example:
        >>> import torch
        >>> motion = JointMotion(("hips",), (-1,), torch.zeros(40, 1, 3, dtype=torch.float64), fps=20.0)
        >>> clip = Clip(motion, captions=(Caption("stands"),), timed=(Caption("waits", start=1.0, end=2.0),))
        >>> clip.cut(0, 20).texts
        ('stands',)
    """

    motion: Motion | JointMotion
    features: Tensor | None = None
    captions: tuple[Caption, ...] = ()
    timed: tuple[Caption, ...] = ()
    split: str = ""
    group: str = ""
    part: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    fault: MotionkitError | None = None

    def __repr__(self) -> str:
        words = [in_short(self.motion), *(repr(text) for text in self.texts[:1])]
        return f"{type(self).__name__}({', '.join(words)})"

    def __post_init__(self) -> None:
        if self.features is not None and len(self.features) != self.motion.frames:
            raise MotionkitError(f"there are {len(self.features)} rows of features for {self.motion.frames} frames.")

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of every caption, those of the whole clip first."""
        return tuple(caption.text for caption in (*self.captions, *self.timed))

    def cut(self, start: int, stop: int) -> Clip:
        """Return frames ``start:stop`` with their features and their part of the timed captions."""
        fps = self.motion.fps
        return replace(
            self,
            motion=self.motion.cut(start, stop),
            features=None if self.features is None else self.features[start:stop],
            timed=captions_within(self.timed, start / fps, stop / fps),
        )

    def resample(self, fps: float) -> Clip:
        """Return the clip at another frame rate; features, which hold steps from frame to frame, do not survive that.

        Raises:
            MotionkitError: As `Motion.resample`.
        """
        if fps == self.motion.fps:
            return self
        return replace(self, motion=self.motion.resample(fps), features=None)

    def with_row(self, row: CaptionRow | None) -> Clip:
        """Return the clip with the captions, split and group of a table's row; its captions replace all others."""
        if row is None:
            return self
        return replace(
            self,
            captions=tuple(Caption(text) for text in row.captions) or self.captions,
            timed=() if row.captions else self.timed,
            split=row.split or self.split,
            splits=() if row.split else self.splits,
            group=row.group or self.group,
        )


class ClipSource(Protocol):
    """One file, or one entry of a dataset, that can be loaded; it is sent to other processes, so it pickles.

    Attributes:
        key: Its id: no slash, no ``#``.
        origin: Where it comes from, for messages.
    """

    @property
    def key(self) -> str:
        """Return the clip's id."""
        ...

    @property
    def origin(self) -> str:
        """Return where the clip comes from."""
        ...

    def fingerprint(self) -> str:
        """Return what changes when the source does: for a file its size, time and name."""
        ...

    def load(self) -> Sequence[Clip]:
        """Load what is there, one clip or several.

        Raises:
            MotionkitError: It cannot be used; other sources go on.
        """
        ...


def clip_key(source: ClipSource, clip: Clip) -> str:
    """Return the id of one clip of a source, fit for a file name even if the part's name from the file is not."""
    return plain_id(f"{source.key}_{clip.part}") if clip.part else source.key
