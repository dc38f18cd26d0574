"""The page of a run that goes on: written again whenever the run has written something, until it ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from motionkit.errors import MotionkitError, signal_of
from motionkit.report.page import write_report
from motionkit.runs import RunInfo, peek

_EVERY = 10.0  # seconds between two looks into the folder; an open page loads itself again as often
_SHARE = 0.1  # of one core that making the page takes at most
_READ = ("run.json", "config.json", "metrics.jsonl", "log.txt", "heldout/*", "figures/*")  # what a page is made of


def watch_report(
    folder: Path, out: Path | None, say: Callable[[str], object], *, pause: Callable[[float], object] = time.sleep
) -> Path:
    """Write the page of a run, again and again while the run goes on; the last one no longer loads itself again.

    Ctrl-C ends it at once, with a page of what there is then.

    Args:
        folder: The run folder.
        out: The file; ``report.html`` in the run folder when None.
        say: Called with a line for each page.
        pause: Sleeps for a number of seconds.

    Returns:
        The file.

    Raises:
        MotionkitError: As `write_report`; after the first page with exit code 1.
    """
    seen: object = None
    try:
        while True:
            info, mark = peek(folder), _mark(folder)
            goes_on = info.status == "running"
            begun = time.monotonic()
            if not goes_on or mark != seen:
                path = write_report(folder, out, renewed=_EVERY if goes_on else 0.0, again=seen is not None)
                seen = mark
                say(
                    f"{_step(info)}: {path}" if goes_on else f"the run has ended ({info.status}), {_step(info)}: {path}"
                )
            if not goes_on:
                return path
            pause(max(_EVERY, (time.monotonic() - begun) / _SHARE))
    except KeyboardInterrupt as error:
        if seen is None:
            raise
        path = write_report(folder, out, again=True)
        if signal_of(error) != signal.SIGINT:
            raise
        say(f"no longer renewed, {_step(peek(folder))}: {path}")
        return path
    except MotionkitError as error:
        raise (error if seen is None else error.as_late()) from error


def _step(info: RunInfo) -> str:
    """Return how far a run has come, in words."""
    step = max(info.steps, int(info.last().get("step", 0)))
    return f"step {step}" + (f" of {info.total_steps}" if info.total_steps else "")


def _mark(folder: Path) -> list[tuple[str, int, int]]:
    """Return names, times and sizes of the files that the page is made of: they differ when one was written."""
    marks = []
    for path in sorted(file for pattern in _READ for file in folder.glob(pattern)):
        with suppress(OSError):  # it was replaced meanwhile
            state = path.stat()
            marks.append((path.name, state.st_mtime_ns, state.st_size))
    return marks
