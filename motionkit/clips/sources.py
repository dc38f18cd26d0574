"""Sources of clips: a motion file with the captions, splits and group of its folder, and one that cannot be opened.

`load_clips` loads a source; any error of a reader becomes a `MotionkitError`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.formats.table import FORMATS
from motionkit.motion.clip import Clip, ClipSource, ReadOptions
from motionkit.motion.corpus.captions import Caption, read_captions

_ONCE = 200e3
"""Bytes of a file whose reading takes as long as all else that is done with it."""


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
        reader = FORMATS[self.format].reader
        beside = [self.path.parent / name for name in (reader.tables if reader is not None else ())]
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


def sizes_of(sources: Sequence[ClipSource]) -> list[float]:
    """Return about how much work each source is, for an estimate of time; empty where files tell nothing of it.

    To open a file, resample its motion and write it takes as long as reading some 200 kB of it (308 BVH files of 40 to
    900 kB: 7 ms, and 0.04 ms for each kB). Files of several formats do not compare.
    """
    files = [source for source in sources if isinstance(source, FileSource)]
    if len(files) < len(sources) or len({source.format for source in files}) != 1:
        return []
    return [_ONCE + _bytes(source.path) for source in files]


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it went away; loading it says so
        return 0


def load_clips(source: ClipSource) -> Sequence[Clip]:
    """Load a source."""
    try:
        return source.load()
    except MotionkitError:
        raise
    except OSError as error:
        fix = "check its permissions." if isinstance(error, PermissionError) else ""
        raise MotionkitError(f"{source.origin} cannot be read: {error.strerror or error}.", fix=fix) from error
    except Exception as error:
        raise unexpected(error, source.origin) from error


def unexpected(error: Exception, origin: str) -> MotionkitError:
    """Return the MotionkitError for an unexpected error of a reader."""
    if isinstance(error, MemoryError):
        return MotionkitError(f"{origin} takes more memory than there is.", fix="cut it into shorter files.")
    words = " ".join(str(error).split())[:200]
    return MotionkitError(
        f"{origin}: unexpected {type(error).__name__}{f': {words}' if words else ''}.",
        fix="the file is damaged in a way that motionkit does not know yet: please report it.",
    )


def _state(path: Path) -> str:
    """Return size and modification time of a file, or of all files of a folder; empty if the path is missing."""
    try:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        return " ".join(f"{state.st_size}-{state.st_mtime_ns}" for state in map(Path.stat, files))
    except OSError:
        return ""
