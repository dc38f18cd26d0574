"""Sources of clips: a motion file with the captions, splits and group of its folder, and one that cannot be opened."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from motionkit.documents import read_json, read_text
from motionkit.errors import MotionkitError
from motionkit.formats.table import FORMATS, Format
from motionkit.motion.clip import Clip, ClipSource, ReadOptions, clip_key
from motionkit.motion.corpus.captions import Caption, CaptionRow, read_captions
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


def dataset_files(
    folder: Path,
    motions: Path,  # its sub-folder with the motions, see `motions_of`
    base: Path,  # the folder that was given to find it in
) -> Iterator[FoundFile]:
    """List the clips of a HumanML3D-layout folder, or of a folder made by ``motionkit generate``."""
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


# One walk over clips: load each source, do one step with each of its clips, collect results and problems.
#
# `convert` to a folder or a file, `convert --check` and `profile` are this walk with different steps.


# Run one function on many jobs, in worker processes if that saves time.


Task = TypeVar("Task")
Result = TypeVar("Result")

_STARTING = 3.0
"""Seconds that worker processes take to import what they need; until it is clear that they save more, none starts."""

_TRYING = 0.5
"""Seconds of work in this process before the time of the rest is guessed."""


def in_processes(
    work: Callable[[Task], Result],  # a function of a module; it, the jobs and the results travel between processes
    jobs: Sequence[Task],  # arguments of the calls
    processes: int,  # largest number of worker processes; 1 uses this process only
) -> Generator[Result, None, None]:
    """Yield ``work(job)`` for every job, in order.

    The first jobs are done in this process; if they show that the rest would take longer than starting the others
    costs, worker processes take over.

    Workers end with this process, whatever ends it, and at once when the generator is closed early: close it
    (`contextlib.closing`) where a loop over it may be left by an exception, which else keeps it alive.

    Raises:
        MotionkitError: A worker process died (exit code 1).
    """
    begun, done = time.perf_counter(), 0
    for job in jobs:
        spent = time.perf_counter() - begun
        left = len(jobs) - done
        if done and spent > _TRYING and spent / done * left * (1 - 1 / min(processes, left)) > _STARTING:
            break
        yield work(job)
        done += 1
    jobs = jobs[done:]
    if not jobs:
        return
    # Fresh processes rather than forked ones: a fork in the middle of torch's threads can hang.
    context = multiprocessing.get_context("spawn")
    watched, alive = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context, initializer=_start, initargs=(watched,))
    workers: set[BaseProcess] = set()
    try:
        with _no_interrupt():
            others = set(multiprocessing.active_children())
            results = pool.map(work, jobs, chunksize=1)
            workers = set(multiprocessing.active_children()) - others
        yield from results
        pool.shutdown()
    except BrokenProcessPool as error:
        raise MotionkitError(
            "a worker process died.",
            why="the system may have been out of memory.",
            fix="run the same command again with fewer --jobs; a conversion goes on where it was.",
            code=1,
        ) from error
    finally:
        alive.close()
        for worker in workers:
            worker.kill()  # those that still import do not watch the pipe yet, and would be waited for
        pool.shutdown(cancel_futures=True)
        watched.close()


def _start(
    watched: Connection,  # a pipe whose other end the parent holds. However the parent ends, that end is closed then.
) -> None:
    """Prepare a worker: one thread, Ctrl-C is left to the parent, and the worker ends with the parent."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()


def _end_with(watched: Connection) -> None:
    watched.poll(None)
    os._exit(1)


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back for the time of the block; processes that start in it never see one, not even while they import.

    It arrives when the block is left.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


Step = Callable[[Clip, str, str], Iterable[Result]]
"""Called with a clip, its id and its origin; what it has yielded before it raises is kept."""

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Errors of the disk, which every other clip would meet too; other errors concern one file."""


@dataclass(frozen=True)
class Job(Generic[Result]):
    """One source and the step to do with its clips; pickled for worker processes."""

    source: ClipSource  # Where the clips come from
    step: Step[Result]  # What to do with each
    row: CaptionRow | None = None  # Their row of the caption table; it takes precedence over what the source holds


@dataclass(frozen=True)
class ClipOutcome(Generic[Result]):
    """What became of one source."""

    key: str  # The source's id
    origin: str  # Where it is
    fingerprint: str = ""  # State of the source when it was read
    results: tuple[Result, ...] = ()  # What the step yielded for its clips, in order
    # Why a clip was not used, by clip id (the source's id if it could not be read).
    problems: Mapping[str, MotionkitError] = field(default_factory=dict)

    def failed(self) -> dict[str, str]:
        """Return the problems as sentences, by the origin and, where it is not the source's, the clip id."""
        return {
            self.origin if key == self.key else f"{self.origin} ({key})": error.sentence()
            for key, error in self.problems.items()
        }


def walk(
    sources: Sequence[ClipSource],
    step: Step[Result],  # what to do with each clip; a function of a module or a `functools.partial` of one
    *,
    rows: Mapping[str, CaptionRow] | None = None,  # rows of a caption table by source id
    done: Mapping[str, ClipOutcome[Result]] | None = None,  # outcomes of sources that are not to be loaded again
    out: Path | None = None,  # folder that the step writes into, for messages
    jobs: int = 1,  # worker processes; 1 uses this process
    progress: Callable[[str], None] = lambda key: None,  # called with a source's id after its outcome was used
) -> Generator[ClipOutcome[Result], None, None]:
    """Yield the outcome of each source, in order; close the generator (`contextlib.closing`) to stop the workers.

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
    """Run a job; errors of the source or of one of its clips become part of the outcome."""
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
