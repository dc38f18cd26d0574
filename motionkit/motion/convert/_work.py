"""What a worker process does with one source: load, check, cut, write."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource, clip_key
from motionkit.motion.convert._load import load_clips, unforeseen
from motionkit.motion.convert._look import look
from motionkit.motion.convert._outcome import Found, Outcome, Piece
from motionkit.motion.convert._targets import Target
from motionkit.motion.corpus._caption_row import CaptionRow

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""What is wrong with the disk and would be wrong for every other clip too; anything else is about one file."""


@dataclass(frozen=True)
class Job:
    """One source and what is to be done with it.

    Attributes:
        source: Where the clips come from.
        target: How they are written; None only looks.
        folder: Where to.
        row: What a table says about them; goes before what the source brings itself.
        fix: Cut each clip to its longest clean run.
    """

    source: ClipSource
    target: Target | None = None
    folder: Path | None = None
    row: CaptionRow | None = None
    fix: bool = False


def work(job: Job) -> Outcome:
    """Do it. What is wrong with the source or one of its clips becomes part of the outcome.

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
