"""Ctrl-C and SIGTERM: one message about what was stopped, and the exit code of the signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from motionkit.cli import _streams, leave
from motionkit.cli._errors import print_json
from motionkit.cli.progress import bar
from motionkit.errors import Interrupted, signal_of

GOES_ON = "the same command goes on from there"
NOTHING = "nothing was written"


@dataclass
class _Work:
    command: str
    total: int
    after: str
    done: int = 0


_now: _Work | None = None
"""What is going on, or was when it was stopped."""


@contextmanager
def working(command: str, total: int, *, after: str = NOTHING, workers: int = 1) -> Iterator[Callable[..., None]]:
    """Show progress while the block runs, and know how far it has come for when it is stopped.

    Args:
        command: What is going on.
        total: Number of steps.
        after: What is true of a command that was stopped here.
        workers: Processes that do the steps; the first step of each of several waits for it to start.

    Yields:
        ``step(count=1, note="")``, to be called after each step.
    """
    global _now
    _now = work = _Work(command, total, after)
    with bar(command, total=total, slow_start=workers if workers > 1 else 0) as show:

        def step(count: int = 1, note: str = "") -> None:
            work.done += count
            show(count, note=note)

        yield step
    _now = None


@contextmanager
def hearing_signals() -> Iterator[None]:
    """Raise `Interrupted` where SIGINT or SIGTERM would end the process; other handlers stay."""
    before = {}
    if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
        for number, usual in (
            (signal.SIGINT, (signal.default_int_handler, leave)),
            (signal.SIGTERM, (signal.SIG_DFL,)),
        ):
            if signal.getsignal(number) in usual:
                before[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report_stop(error: KeyboardInterrupt, line: Sequence[str]) -> int:
    """Say how far a command came that was stopped, and return the exit code: 143 after SIGTERM, else 130.

    Args:
        error: What stopped it.
        line: The command line; with ``--json`` a document is printed as well.
    """
    global _now
    work, _now = _now, None
    if "--json" in line:
        name = next((word for word in line if not word.startswith("-")), "") if work is None else work.command
        counts = {} if work is None else {"done": work.done, "total": work.total}
        print_json({"command": name, "status": "interrupted", **counts})
    where = "stopped." if work is None else f"stopped after {work.done} of {work.total}; {work.after}."
    _streams.tell(where)
    return 128 + signal_of(error)


def _stop(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)  # a second one does not wait for anything
    raise Interrupted(number)
