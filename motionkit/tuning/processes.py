"""The processes of a search on this machine: how many, and what is done with those that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection

from motionkit.errors import MotionkitError
from motionkit.tuning.plan import WORKERS
from motionkit.tuning.trials import Trials

_POLL = 0.3
"""Seconds between looks at the processes."""

_GRACE = 60.0
"""Seconds for processes to save their work after a signal."""


def cores() -> int:
    """Return how many cores this process may use."""
    # macOS and Windows have none.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_jobs(device: str) -> int:
    """Return how many processes search by default: two, or one on one core or a GPU."""
    return 1 if cores() < 2 or not device.startswith(("cpu", "auto")) else 2


def run_processes(
    trials: Trials, jobs: int, code: Collection[str] = (), *, stopped: Callable[[], int], look: Callable[[], bool]
) -> None:
    """Run workers until no trial is left; new ones replace those that died.

    Args:
        trials: The trials.
        jobs: Number of processes.
        code: Files and options that may run code, see `Base.code`.
        stopped: Returns the signal that asks to stop, or 0.
        look: Polled; returns whether a trial has ended since the last call.

    Raises:
        MotionkitError: All of them died before a trial ended (exit code 1).
    """
    threads = max(1, cores() // jobs)
    if (limit := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        threads = min(threads, max(1, int(limit)))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    (trials.folder / WORKERS).mkdir(exist_ok=True)
    log = trials.folder / WORKERS / f"{trials.phase}.log"
    words = [sys.executable, "-m", "motionkit.tuning.worker", str(trials.folder), trials.phase, *code]
    while trials.left():
        progressed = False
        with log.open("ab") as output:
            # A new session for each: Ctrl-C reaches them once, through this process.
            running = [
                subprocess.Popen(
                    words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    start_new_session=True,
                )
                for _ in range(jobs)
            ]  # fmt: skip
        try:
            while any(process.poll() is None for process in running):
                time.sleep(_POLL)
                progressed |= look()
                if number := stopped():
                    _end(running, number)
                    look()
                    return
        except BaseException:
            _end(running, signal.SIGTERM)
            raise
        progressed |= look()
        if not progressed and trials.left():
            codes = [process.returncode for process in running]
            lines = log.read_text(errors="replace").strip().splitlines()
            why = lines[-1] if lines else f"exit codes {', '.join(map(str, codes))}"
            raise MotionkitError("the processes of the search died.", why=why, fix=f"see {log}", code=1)


def _end(running: list[subprocess.Popen[bytes]], number: int) -> None:
    for process in running:
        if process.poll() is None:
            process.send_signal(number)
    until = time.monotonic() + _GRACE
    for process in running:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
