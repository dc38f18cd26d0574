"""Sources of clips: a motion file with the captions, splits and group of its folder, and one that cannot be opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from motionkit.documents import read_json, read_text
from motionkit.errors import MotionkitError
from motionkit.formats.table import FORMATS, Format
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.corpus.captions import Caption, read_captions
from motionkit.motion.corpus.ids import SPLITS
from motionkit.text import Prompt

# The clips of a dataset folder: features or joints with the captions and splits beside them.


LIMIT = 256 << 20
"""Largest convert.json (up to a kilobyte for each clip), motions.json and list of clips, in bytes."""


@dataclass(frozen=True)
class FoundFile:
    """A motion file found in a folder."""

    path: Path  # The file
    base: Path  # The folder that was given to find it in
    format: Format  # Its format
    texts: tuple[Caption, ...] = ()  # Its captions
    texts_file: Path | None = None  # Its file of captions
    splits: tuple[str, ...] = ()  # The splits that list it


def motions_of(folder: Path) -> Path | None:
    """Return a dataset's folder of features, else its folder of joints if there are captions or splits."""
    if (features := folder / "new_joint_vecs").is_dir():
        return features
    lists = any((folder / f"{split}.txt").is_file() for split in SPLITS)
    joints = folder / "new_joints"
    return joints if joints.is_dir() and (lists or (folder / "texts").is_dir()) else None


def dataset_files(folder: Path, motions: Path, base: Path) -> Iterator[FoundFile]:
    """List the clips of a HumanML3D-layout folder, or of a folder made by ``motionkit generate``.

    Args:
        folder: The folder.
        motions: Its sub-folder with the motions, see `motions_of`.
        base: The folder that was given to find it in.
    """
    splits: dict[str, tuple[str, ...]] = {}
    for split in SPLITS:
        for key in dict.fromkeys(_lines(folder / f"{split}.txt")):
            splits[key] = (*splits.get(key, ()), split)
    texts = generated_texts(folder)
    kind = FORMATS["features" if motions.name == "new_joint_vecs" else "joints"]
    for path in sorted(path for path in motions.iterdir() if path.suffix == ".npy" and not path.name.startswith(".")):
        file = folder / "texts" / f"{path.stem}.txt"
        own = file if file.exists() else None
        yield FoundFile(path, base, kind, texts.get(path.stem, ()), own, splits.get(path.stem, ()))


def generated_texts(folder: Path) -> Mapping[str, tuple[Caption, ...]]:
    """Return the captions of each clip of a folder that ``generate`` made: of the whole clip, then of its segments."""
    try:
        document = read_json(folder / "motions.json", dict, limit=LIMIT)
        fps = float(document["fps"])
        return {str(entry["id"]): _segment_captions(entry["segments"], fps) for entry in document["motions"]}
    except (ValueError, KeyError, TypeError, ZeroDivisionError, MotionkitError):
        return {}


def _segment_captions(segments: Sequence[Mapping[str, Any]], fps: float) -> tuple[Caption, ...]:
    spans = [(str(part["text"]), int(part["start"]), int(part["end"])) for part in segments]
    prompt = Prompt(tuple(text for text, _, _ in spans), tuple(end - start for _, start, end in spans))
    parts = [Caption(text, (), start / fps, end / fps) for text, start, end in spans] if len(spans) > 1 else []
    return (Caption(prompt.text), *parts)


def _lines(path: Path) -> list[str]:
    return read_text(path, limit=LIMIT).split() if path.exists() else []


@dataclass(frozen=True)
class FileSource:
    """A motion file."""

    path: Path  # The file
    key: str  # Clip id
    format: str  # Name of its format
    options: ReadOptions = field(default_factory=ReadOptions)  # Options of the reader
    texts: tuple[Caption, ...] = ()  # Captions from other files of its folder
    texts_file: Path | None = None  # HumanML3D texts file with its captions, read with the clip
    # Splits of its folder that list it, in the order of `SPLITS`. More than one is a leak: the clip then gets the last
    # of them, so that no held-out clip is trained on, and a warning.
    splits: tuple[str, ...] = ()
    group: str = ""  # Name shared by all files of the same take; empty if there is only one

    @property
    def origin(self) -> str:
        """Return the path."""
        return str(self.path)

    def fingerprint(self) -> str:
        """Return a text that changes when any file read for the clips changes; empty if the file is missing."""
        beside = [self.path.parent / name for name in FORMATS[self.format].tables]
        given = (self.texts_file, self.options.hierarchy, self.options.offsets, self.options.smpl_model)
        files = [*beside, *(path for path in given if path is not None)]
        if (own := _state(self.path)) == "":
            return ""
        about = f"{os.path.realpath(self.path)} {self.format} {self.texts} {self.splits} {self.group} {self.options}"
        words = [own, *map(_state, files), about]
        return hashlib.sha256("\n".join(words).encode(errors="backslashreplace")).hexdigest()

    def load(self) -> Sequence[Clip]:
        """Read the file; its hash goes into the notes, and outputs record it as their origin."""
        clips = FORMATS[self.format].read(self.path, self.options)
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        texts = self.texts if self.texts_file is None else read_captions(self.texts_file)
        whole = tuple(caption for caption in texts if caption.whole)
        timed = tuple(caption for caption in texts if not caption.whole)
        several = self.splits if len(self.splits) > 1 else ()
        leak = (f"its folder lists it in {', '.join(several)}; it counts as {several[-1]}.",) if several else ()
        return [
            replace(
                clip,
                captions=clip.captions or whole,
                timed=clip.timed or timed,
                split=clip.split or "".join(self.splits[-1:]),
                splits=clip.splits or several,
                group=clip.group or self.group,
                warnings=(*clip.warnings, *leak),
                notes={**clip.notes, "sha256": digest},
            )
            for clip in clips
        ]


@dataclass(frozen=True)
class LockedSource:
    """A file or folder that cannot be opened; only its own `load` fails."""

    path: Path  # Where it is
    key: str  # An id, as of a clip
    reason: str  # The error message of the system

    @property
    def origin(self) -> str:
        """Return the path."""
        return str(self.path)

    def fingerprint(self) -> str:
        """Return an empty text: the source is tried again next time."""
        return ""

    def load(self) -> Sequence[Clip]:
        """Raise a MotionkitError with the reason."""
        what = "; what is in it was not read" if self.path.suffix == "" else ""
        raise MotionkitError(f"{self.path}: {self.reason}{what}.", fix="check its permissions.")


def _state(path: Path) -> str:
    """Return size and modification time of a file, or of all files of a folder; empty if the path is missing."""
    try:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        return " ".join(f"{state.st_size}-{state.st_mtime_ns}" for state in map(Path.stat, files))
    except OSError:
        return ""
