"""Run one function on many jobs, in worker processes if that saves time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

import torch

from motionkit.errors import MotionkitError

Job = TypeVar("Job")
Result = TypeVar("Result")

_STARTING = 3.0
"""Seconds that worker processes take to import what they need; until it is clear that they save more, none starts."""

_TRYING = 0.5
"""Seconds of work in this process before the time of the rest is guessed."""


def in_processes(work: Callable[[Job], Result], jobs: Sequence[Job], processes: int) -> Generator[Result, None, None]:
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


def _start(watched: Connection) -> None:
    """Prepare a worker: one thread, Ctrl-C is left to the parent, and the worker ends with the parent.

    Args:
        watched: A pipe whose other end the parent holds. However the parent ends, that end is closed then.
    """
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
