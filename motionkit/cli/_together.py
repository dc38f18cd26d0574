"""Commands that several processes run together: who may, and how all of them end with one message."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from motionkit.cli import _streams, command_line
from motionkit.cli._errors import as_motionkit_error, bug, report
from motionkit.cli._stop import report_stop
from motionkit.errors import MotionkitError, signal_of
from motionkit.trainers.launch import Launch, launch_of

if TYPE_CHECKING:
    from motionkit.trainers.together import Processes
    from motionkit.trainers.words import Words


def refuse_copies(command: str) -> None:
    """Refuse a command that is no trainer where a launcher started several processes of it.

    Raises:
        MotionkitError: There are several; each would do the same work.
    """
    launch = launch_of()
    if launch.size > 1:
        raise MotionkitError(
            f"motionkit {command} is one process, and {launch.size} were started.",
            why="each would do the whole work and write the same files.",
            fix=f"motionkit {command} ..., without torchrun or accelerate launch.",
        )


def refuse_unshared(label: str, trainer: Any, launch: Launch) -> None:
    """Refuse a trainer that cannot be shared by processes.

    Raises:
        MotionkitError: It has no ``world``; see `motionkit.trainers.base.Trainer`.
    """
    if not hasattr(trainer, "world"):
        why = getattr(trainer, "unshared", "") or "it does not share its steps"
        raise MotionkitError(
            f"motionkit {label} cannot be shared by {launch.size} processes.",
            why=f"{why}; each process would train a copy of its own.",
            fix=f"motionkit {label} ..., without torchrun or accelerate launch.",
        )


@contextmanager
def ending_together(launch: Launch, *, as_json: bool) -> Iterator[Callable[[str], Processes]]:
    """End all processes with one message and the same exit code when one of them fails in the block.

    Args:
        launch: Place of this process.
        as_json: Whether an error is a document as well.

    Yields:
        ``join(device)``, which meets the other processes; before it, and without a launcher, errors go on as usual.
    """
    met: list[Processes] = []

    def join(device: str) -> Processes:
        from motionkit.trainers.together import join

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
        first, code = _leave(words, error)
        if isinstance(error, (BrokenPipeError, SystemExit)):
            raise
        told = words.may_tell()
        if told:
            code = _tell(error, as_json=as_json)
        elif launch.quiet and first and as_motionkit_error(error) is None and not isinstance(error, KeyboardInterrupt):
            # What to report of a bug is known here only.
            _streams.tell("".join(traceback.format_exception(error)).rstrip())
        words.part(told=told)
        raise typer.Exit(code) from error
    finally:
        if met:
            met[0].close()


def _leave(words: Words, error: BaseException) -> tuple[bool, int]:
    """Tell the others why this process ends; returns whether it is the first that does, and its exit code."""
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
