"""One walk over clips: load each source, do one step with each of its clips, collect results and problems.

`convert` to a folder or a file, `convert --check` and `profile` are this walk with different steps.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from motionkit.clips._pool import in_processes
from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ClipSource, clip_key
from motionkit.motion.corpus._caption_table import CaptionRow

Result = TypeVar("Result")
Step = Callable[[Clip, str, str], Iterable[Result]]
"""Called with a clip, its id and its origin; what it has yielded before it raises is kept."""

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Errors of the disk, which every other clip would meet too; other errors concern one file."""


@dataclass(frozen=True)
class Job(Generic[Result]):
    """One source and the step to do with its clips; pickled for worker processes.

    Attributes:
        source: Where the clips come from.
        step: What to do with each.
        row: Their row of the caption table; it takes precedence over what the source holds.
    """

    source: ClipSource
    step: Step[Result]
    row: CaptionRow | None = None


@dataclass(frozen=True)
class ClipOutcome(Generic[Result]):
    """What became of one source.

    Attributes:
        key: The source's id.
        origin: Where it is.
        fingerprint: State of the source when it was read.
        results: What the step yielded for its clips, in order.
        problems: Why a clip was not used, by clip id (the source's id if it could not be read).
    """

    key: str
    origin: str
    fingerprint: str = ""
    results: tuple[Result, ...] = ()
    problems: Mapping[str, MotionkitError] = field(default_factory=dict)

    def failed(self) -> dict[str, str]:
        """Return the problems as sentences, by the origin and, where it is not the source's, the clip id."""
        return {
            self.origin if key == self.key else f"{self.origin} ({key})": error.sentence()
            for key, error in self.problems.items()
        }


def walk(
    sources: Sequence[ClipSource],
    step: Step[Result],
    *,
    rows: Mapping[str, CaptionRow] | None = None,
    done: Mapping[str, ClipOutcome[Result]] | None = None,
    out: Path | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> Generator[ClipOutcome[Result], None, None]:
    """Yield the outcome of each source, in order; close the generator (`contextlib.closing`) to stop the workers.

    Args:
        sources: The clips.
        step: What to do with each clip; a function of a module or a `functools.partial` of one.
        rows: Rows of a caption table by source id.
        done: Outcomes of sources that are not to be loaded again.
        out: Folder that the step writes into, for messages.
        jobs: Worker processes; 1 uses this process.
        progress: Called with a source's id after its outcome was used.

    Raises:
        MotionkitError: The disk is full, read-only or broken, or a worker process died (exit code 1).
    """
    rows, done = rows or {}, done or {}
    todo = [Job(source, step, rows.get(source.key)) for source in sources if source.key not in done]
    with closing(in_processes(work, todo, jobs)) as fresh:
        for source in sources:
            try:
                outcome = done[source.key] if source.key in done else next(fresh)
            except OSError as error:
                raise MotionkitError(
                    f"cannot write into {out}: {error.strerror or error}.",
                    why="what was done so far is kept.",
                    fix="make room, then run the same command again: it goes on from there.",
                    code=1,
                ) from error
            yield outcome
            progress(source.key)


def work(job: Job[Result]) -> ClipOutcome[Result]:
    """Run a job; errors of the source or of one of its clips become part of the outcome.

    Raises:
        OSError: The disk is full, read-only or broken.
    """
    source = job.source
    fingerprint = source.fingerprint()
    results: list[Result] = []
    problems: dict[str, MotionkitError] = {}
    try:
        clips = load_clips(source)
    except MotionkitError as error:
        clips, problems = (), {source.key: error}
    for clip in clips:
        key = clip_key(source, clip)
        try:
            if clip.fault is not None:
                raise clip.fault
            for result in job.step(clip.with_row(job.row), key, source.origin):
                results.append(result)  # kept if the step fails after it
        except MotionkitError as error:
            problems[key] = error
        except OSError as error:
            if error.errno in _DISK:
                raise
            problems[key] = MotionkitError(f"cannot be written: {error.strerror or error}.")
        except Exception as error:
            problems[key] = unexpected(error, source.origin)
    return ClipOutcome(source.key, source.origin, fingerprint, tuple(results), problems)


def load_clips(source: ClipSource) -> Sequence[Clip]:
    """Load a source.

    Raises:
        MotionkitError: It cannot be used. Unexpected errors of a reader are converted too, because one damaged file
            must not stop a folder; the message asks for a report.
    """
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
