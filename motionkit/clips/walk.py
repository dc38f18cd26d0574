"""One walk over clips: load each source, do one step with each of its clips, collect results and problems.

`convert`, `convert --check`, `profile` and `view` are this walk with different steps. `in_processes` spreads it over
worker processes where that saves time.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, takewhile
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Generic, TypeVar

import torch

from motionkit.clips.sources import load_clips, unexpected
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip, ClipSource, clip_keys, row_keys
from motionkit.motion.corpus.captions import CaptionRow

Task = TypeVar("Task")
Result = TypeVar("Result")

Step = Callable[[Clip, str, str], Iterable[Result]]
"""Called with a clip, its id and its origin; what it has yielded before it raises is kept."""

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Errors of the disk, which every other clip would meet too; other errors concern one file."""

_STARTING = 3.0
"""Seconds that worker processes take to import what they need; until it is clear that they save more, none starts."""

_TRYING = 0.5
"""Seconds of work in this process before the time of the rest is guessed."""


@dataclass(frozen=True)
class Job(Generic[Result]):
    """One source and the step to do with its clips; pickled for worker processes."""

    source: ClipSource  # Where the clips come from
    step: Step[Result]  # What to do with each
    rows: tuple[CaptionRow, ...] = ()  # Their rows of the caption table, which take precedence over what it holds
    others: frozenset[str] = frozenset()  # Ids of other sources, in lower case, that its clips might be called too


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
    step: Step[Result],
    *,
    rows: Mapping[str, tuple[CaptionRow, ...]] | None = None,
    done: Mapping[str, ClipOutcome[Result]] | None = None,
    out: Path | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> Generator[ClipOutcome[Result], None, None]:
    """Yield the outcome of each source, in order; close the generator (`contextlib.closing`) to stop the workers.

    Args:
        sources: Where the clips come from.
        step: What to do with each clip; a function of a module or a `functools.partial` of one.
        rows: Rows of a caption table by source id; the step is done with the clip of each row.
        done: Outcomes of sources that are not to be loaded again.
        out: Folder that the step writes into, for messages.
        jobs: Worker processes; 1 uses this process.
        progress: Called with a source's id after its outcome was used.

    Raises:
        MotionkitError: The disk is full, read-only or broken, or a worker process died (exit code 1).
    """
    rows, done = rows or {}, done or {}
    others = _longer_keys(sources)
    todo = [
        Job(source, step, rows.get(source.key, ()), others.get(source.key.lower(), frozenset()))
        for source in sources
        if source.key not in done
    ]
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


def _begins(start: str, key: str) -> bool:
    return key.startswith(start)


def _longer_keys(sources: Sequence[ClipSource]) -> dict[str, frozenset[str]]:
    """Return, by the id of a source, the ids of sources that begin with it and ``_``, as those of its clips do."""
    keys = sorted(source.key.lower() for source in sources)
    longer: dict[str, frozenset[str]] = {}
    for key in keys:
        start = f"{key}_"
        after = islice(keys, bisect_left(keys, start), None)
        if others := frozenset(takewhile(partial(_begins, start), after)):
            longer[key] = others
    return longer


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
    named = zip(clips, clip_keys(source, clips, job.others), strict=True)
    made = [(clip, own, key, row) for clip, own in named for key, row in row_keys(own, job.rows, job.others)]
    for clip, own, key, row in made:
        try:
            if clip.fault is not None:
                raise clip.fault
            clip = clip.with_row(row)
            if key != own:  # the stretches of a recording stay in one split
                clip = replace(clip, group=clip.group or own)
            for result in job.step(clip, key, source.origin):
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


def in_processes(work: Callable[[Task], Result], jobs: Sequence[Task], processes: int) -> Generator[Result, None, None]:
    """Yield ``work(job)`` for every job, in order.

    The first jobs are done in this process; if they show that the rest would take longer than starting the others
    costs, worker processes take over.

    Workers end with this process, whatever ends it, and at once when the generator is closed early: close it
    (`contextlib.closing`) where a loop over it may be left by an exception, which else keeps it alive.

    Args:
        work: A function of a module; it, the jobs and the results travel between processes.
        jobs: Arguments of the calls.
        processes: Largest number of worker processes; 1 uses this process only.

    Raises:
        MotionkitError: A worker process died (exit code 1).
    """
    begun, done = time.perf_counter(), 0
    for job in jobs:
        spent = time.perf_counter() - begun
        left = len(jobs) - done
        if done and spent > _TRYING and spent / done * left * (1 - 1 / min(processes, left)) > _STARTING:
            break
        with one_thread():
            result = work(job)
        yield result
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


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread for the time of the block, as worker processes do: a clip's tensors are small.

    A second thread waits for its turn longer than it works; on two cores it doubled the processor time of a conversion.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
