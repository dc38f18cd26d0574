"""Several processes at one search."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.tuning._names import WORKERS

_POLL = 0.3
_GRACE = 60.0
"""Seconds that processes have to save after a signal."""


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_jobs(device: str) -> int:
    """Return how many processes search by default: two, or one on one core or a GPU."""
    return 1 if cores() < 2 or not device.startswith(("cpu", "auto")) else 2


def run_processes(
    folder: Path,
    phase: str,
    jobs: int,
    code: Collection[str] = (),
    *,
    stopped: Callable[[], int],
    look: Callable[[], bool],
    left: Callable[[], bool],
) -> None:
    """Run workers until nothing is left; where some died, others are started.

    Args:
        folder: The study folder.
        phase: ``search`` or ``seeds``.
        jobs: How many.
        code: What may make code run, see `Base.code`.
        stopped: Returns the signal that asks to stop, or 0.
        look: Called a few times a second; returns whether anything has ended since the last call.
        left: Returns whether there is work that nobody does.

    Raises:
        MotionkitError: All of them died before anything ended (exit code 1).
    """
    threads = max(1, cores() // jobs)
    if (given := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        threads = min(threads, max(1, int(given)))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    (folder / WORKERS).mkdir(exist_ok=True)
    log = folder / WORKERS / f"{phase}.log"
    while left():
        progressed = False
        with log.open("ab") as said:
            # A session of their own: Ctrl-C reaches them once, through us.
            running = [
                subprocess.Popen(
                    [sys.executable, "-m", "motionkit.tuning.worker", str(folder), phase, *code],
                    env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                )
                for _ in range(jobs)
            ]  # fmt: skip
        try:
            while any(one.poll() is None for one in running):
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
        if not progressed and left():
            codes = [one.returncode for one in running]
            lines = log.read_text(errors="replace").strip().splitlines()
            why = lines[-1] if lines else f"exit codes {', '.join(map(str, codes))}"
            raise MotionkitError("the processes of the search died.", why=why, fix=f"see {log}", code=1)


def _end(running: list[subprocess.Popen[bytes]], number: int) -> None:
    for one in running:
        if one.poll() is None:
            one.send_signal(number)
    until = time.monotonic() + _GRACE
    for one in running:
        try:
            one.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
