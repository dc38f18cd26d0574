"""Ctrl-C and SIGTERM: what was going on is said once, and the exit code goes with the signal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from motionkit.cli.output import as_json
from motionkit.cli.progress import bar

GOES_ON = "the same command goes on from there"
NOTHING = "nothing was written"


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it was received: whatever cleans up after Ctrl-C does so after this."""


@dataclass
class _Work:
    command: str
    total: int
    after: str
    done: int = 0


_now: _Work | None = None
"""What is going on, or was when it was stopped."""


@contextmanager
def working(command: str, total: int, *, after: str = NOTHING) -> Iterator[Callable[..., None]]:
    """Show progress while the block runs, and know how far it has come for when it is stopped.

    Args:
        command: What is going on.
        total: Number of steps.
        after: What is true of a command that was stopped here.

    Yields:
        ``step(count=1, note="")``, to be called after each step.
    """
    global _now
    _now = work = _Work(command, total, after)
    with bar(command, total=total) as show:

        def step(count: int = 1, note: str = "") -> None:
            work.done += count
            show(count, note=note)

        yield step
    _now = None


@contextmanager
def hearing_sigterm() -> Iterator[None]:
    """Raise `Terminated` where SIGTERM would end the process on the spot; elsewhere it belongs to somebody else."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
        print(as_json({"schema": 1, "command": name, "status": "interrupted", **counts}), flush=True)
    where = "stopped." if work is None else f"stopped after {work.done} of {work.total}; {work.after}."
    print(where, file=sys.stderr, flush=True)
    return 143 if isinstance(error, Terminated) else 130


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one does not wait for anything
    raise Terminated
