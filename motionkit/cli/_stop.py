"""How commands end early: by a signal, and together if several processes run one command.

`working` records the progress of a command for the message of a stop, and `hearing_signals` raises `Interrupted`.
`refuse_copies` and `refuse_unshared` say which commands several processes may run; `ending_together` ends these
processes with one message and one exit code.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from motionkit.cli import _streams, command_line, leave
from motionkit.cli._errors import as_motionkit_error, bug, print_json, report
from motionkit.cli.progress import bar
from motionkit.errors import Interrupted, MotionkitError, signal_of
from motionkit.training.launch import Launch, launch_of

if TYPE_CHECKING:
    from motionkit.training.launch import Words
    from motionkit.training.together import Processes

GOES_ON = "the same command goes on from there"
NOTHING = "nothing was written"


@dataclass
class _Work:
    command: str
    total: int
    after: str
    done: int = 0


_now: _Work | None = None
"""The work in progress, or that was in progress at a stop."""


@contextmanager
def working(
    command: str, total: int, *, after: str = NOTHING, workers: int = 1, sizes: Sequence[float] = ()
) -> Iterator[Callable[..., None]]:
    """Show progress while the block runs, and record it for the message of a stop.

    Args:
        command: Name of the command.
        total: Number of steps.
        after: The state if the command is stopped here, for the message.
        workers: Worker processes; if there are several, the first step of each includes its start.
        sizes: Work of each step, where it is known; see `bar`.

    Yields:
        ``step(count=1, note="")``, to be called after each step.
    """
    global _now
    _now = work = _Work(command, total, after)
    with bar(command, total=total, slow_start=workers if workers > 1 else 0, sizes=sizes) as show:

        def step(count: int = 1, note: str = "") -> None:
            work.done += count
            show(count, note=note)

        yield step
    _now = None


@contextmanager
def hearing_signals() -> Iterator[None]:
    """Raise `Interrupted` where SIGINT or SIGTERM would end the process; other handlers stay."""
    before = {}
    if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
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
    """Print the progress of a stopped command, and return the exit code: 143 after SIGTERM, else 130.

    Args:
        error: The interrupt.
        line: The command line; with ``--json`` a document is also printed.
    """
    global _now
    work, _now = _now, None
    if "--json" in line:
        name = next((word for word in line if not word.startswith("-")), "") if work is None else work.command
        counts = {} if work is None else {"done": work.done, "total": work.total}
        print_json({"command": name, "status": "interrupted", **counts})
    _streams.tell("stopped." if work is None else f"stopped after {work.done} of {work.total}; {work.after}.")
    return 128 + signal_of(error)


def _stop(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    raise Interrupted(number)


def refuse_copies(command: str) -> None:
    """Refuse a command that is not a trainer if a launcher started several processes of it."""
    launch = launch_of()
    if launch.size > 1:
        raise MotionkitError(
            f"motionkit {command} is one process, and {launch.size} were started.",
            why="each would do the whole work and write the same files.",
            fix=f"motionkit {command} ..., without torchrun or accelerate launch.",
        )


def refuse_unshared(label: str, trainer: Any, launch: Launch) -> None:
    """Refuse a trainer that cannot be shared by processes."""
    if trainer.world is None:
        why = trainer.unshared or "it does not share its steps"
        raise MotionkitError(
            f"motionkit {label} cannot be shared by {launch.size} processes.",
            why=f"{why}; each process would train a copy of its own.",
            fix=f"motionkit {label} ..., without torchrun or accelerate launch.",
        )


@contextmanager
def ending_together(launch: Launch, *, as_json: bool) -> Iterator[Callable[[str], Processes]]:
    """End all processes with one message and the same exit code when one of them fails in the block.

    Yields:
        ``join(device)``, which joins the other processes; before it, and without a launcher, errors propagate as usual.
    """
    met: list[Processes] = []

    def join(device: str) -> Processes:
        from motionkit.training.together import join

        met.append(join(launch, device))
        return met[0]

    try:
        yield join
    except typer.Exit:  # an end that all of them agreed on
        raise
    except BaseException as error:
        if not met:
            raise
        words = met[0].words
        error = _cause(words, error)
        first, code = _leave(words, error)
        if isinstance(error, (BrokenPipeError, SystemExit)):
            raise
        tells = words.may_tell()
        if tells:
            code = _tell(error, as_json=as_json)
        elif launch.quiet and first and as_motionkit_error(error) is None and not isinstance(error, KeyboardInterrupt):
            # Only this process has the traceback of the bug.
            _streams.tell("".join(traceback.format_exception(error)).rstrip())
        words.part(told=tells)
        raise typer.Exit(code) from error
    finally:
        if met:
            met[0].close()


def _cause(words: Words, error: BaseException) -> BaseException:
    """Return why a process ends: an exchange of a sharded layer fails where another process has ended before."""
    return words.of_the_others() if isinstance(error, RuntimeError) and words.ended else error


def _leave(words: Words, error: BaseException) -> tuple[bool, int]:
    """Send the error to the others; return whether this process is the first to end, and its exit code."""
    if isinstance(error, KeyboardInterrupt):
        return words.leave(error, "stopped."), 128 + signal_of(error)
    known = as_motionkit_error(error) or bug(error)
    first = words.leave(error, known.message, why=known.why, fix=known.fix, code=known.code)
    return first, known.code if known.code in (1, 2) else 1


def _tell(error: BaseException, *, as_json: bool) -> int:
    line = command_line.get()
    if isinstance(error, KeyboardInterrupt):
        return report_stop(error, line)
    wanted = "--traceback" in line or os.environ.get("MOTIONKIT_DEBUG", "") not in ("", "0")
    return report(error, json_wanted=as_json, traceback_wanted=wanted)
