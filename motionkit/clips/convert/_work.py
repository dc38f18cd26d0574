"""Convert one source in a worker process: load, check, cut, write."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path

from motionkit.clips.convert._load import load_clips, unforeseen
from motionkit.clips.convert._look import look
from motionkit.clips.convert._outcome import Found, Outcome, Piece
from motionkit.clips.convert._targets import Target
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource, clip_key
from motionkit.motion.corpus._caption_table import CaptionRow

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Errors of the disk, which every other clip would meet too; other errors concern one file."""


@dataclass(frozen=True)
class Job:
    """One source and how to convert it.

    Attributes:
        source: Where the clips come from.
        target: Writer of the clips; None only checks them.
        folder: Output folder.
        row: Their row of the caption table; it takes precedence over what the source holds.
        fix: Cut each clip to its longest clean run.
    """

    source: ClipSource
    target: Target | None = None
    folder: Path | None = None
    row: CaptionRow | None = None
    fix: bool = False


def work(job: Job) -> Outcome:
    """Run a job; errors of the source or of one of its clips become part of the outcome.

    Raises:
        OSError: The disk is full, read-only or broken.
    """
    source = job.source
    fingerprint = source.fingerprint()
    try:
        clips = load_clips(source)
    except MotionkitError as error:
        return Outcome(source.key, source.origin, fingerprint, problems={source.key: error.sentence()})
    found: list[Found] = []
    pieces: list[Piece] = []
    problems: dict[str, str] = {}
    for clip in clips:
        key = clip_key(source, clip)
        try:
            clip = clip.with_row(job.row)
            clip, facts = look(replace(clip, group=clip.group or key), key, target=job.target, fix=job.fix)
            found.append(facts)
            if job.target is not None and job.folder is not None:
                pieces.extend(replace(piece, clip=key) for piece in job.target.write(clip, key, job.folder))
        except MotionkitError as error:
            problems[key] = error.sentence()
        except OSError as error:
            if error.errno in _DISK:
                raise
            problems[key] = f"cannot be written: {error.strerror or error}."
        except Exception as error:
            problems[key] = unforeseen(error, source.origin).sentence()
    return Outcome(source.key, source.origin, fingerprint, tuple(found), tuple(pieces), problems)
