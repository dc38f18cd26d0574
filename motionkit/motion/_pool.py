"""The same work on many clips, in worker processes where that is worth it."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import torch

from motionkit.errors import MotionkitError

Job = TypeVar("Job")
Result = TypeVar("Result")

_STARTING = 3.0
"""Seconds that worker processes take to import what they need; until it is clear that they save more, none starts."""

_TRYING = 0.5
"""Seconds of work in this process before the time of the rest is guessed."""


def in_processes(work: Callable[[Job], Result], jobs: Sequence[Job], processes: int) -> Iterator[Result]:
    """Yield ``work(job)`` for every job, in order.

    The first jobs are done in this process; if they show that the rest would take longer than starting the others
    costs, worker processes take over.

    Args:
        work: A function of a module; it, the jobs and the results travel between processes.
        jobs: What is to be done.
        processes: Most worker processes; 1 does everything in this one.

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
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context, initializer=_start) as pool:
        try:
            yield from pool.map(work, jobs, chunksize=1)
        except BrokenProcessPool as error:
            raise MotionkitError(
                "a worker process died.",
                why="the system may have been out of memory.",
                fix="run the same command again with fewer --jobs; a conversion goes on where it was.",
                code=1,
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _start() -> None:
    """Prepare a worker: one thread each, and Ctrl-C is the parent's business."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
