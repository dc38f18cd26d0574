"""Standard streams: stdout carries what motionkit prints as a result and nothing else, stderr the rest.

Code of plugins and libraries prints too, from Python, from C and from processes that it starts. `own_stdout` gives
motionkit a descriptor of its own for results and lets the process's descriptor 1 lead to stderr; `aside` does the same
for ``print`` and ``sys.stdout`` while other code may run.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO

from motionkit.errors import MotionkitError
from motionkit.training.launch import launch_of

_results: IO[str] | None = None
"""Where results go while ``sys.stdout`` is lent to other code."""


def own_stdout() -> None:
    """Prepare the streams of a process that runs motionkit and nothing else.

    A stream that was closed (``>&-``) is opened again, so that no other file gets its number: stdout in such a way
    that results cannot be written, which is reported; stdin and stderr lead nowhere.
    """
    for number, how in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, how), True)  # it takes the lowest free number
    stdout, stderr = sys.stdout, sys.stderr
    if stderr is None:
        sys.stderr = stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    like = stderr if stdout is None else stdout
    copy, buffering = os.dup(1), 1 if like.line_buffering else -1
    os.dup2(2, 1)
    sys.stdout = os.fdopen(copy, "w", buffering, encoding=like.encoding, errors=like.errors, closefd=False)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Lead ``sys.stdout`` to stderr while the block runs; `results` is where it led before."""
    global _results
    if _results is not None:
        yield
        return
    _results = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _results = None


def results() -> IO[str]:
    """Return the stream for results."""
    return _results or sys.stdout


def write(text: str) -> None:
    """Print a line of results; of processes that were started together, only the first prints.

    Raises:
        MotionkitError: It cannot be written (exit code 1).
        BrokenPipeError: Nobody reads them any more.
    """
    if launch_of().quiet:
        return
    with writing():
        print(text, file=results())


def flush() -> None:
    """Send off what was printed; raises as `write`."""
    with writing():
        results().flush()


def flush_or_drop() -> None:
    """Send off what was printed before a command failed, if that is possible."""
    try:
        flush()
    except (MotionkitError, OSError):
        drop(results())


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Say that it is the results which cannot be written, when something in the block fails so."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MotionkitError(
            f"the result cannot be written to standard output: {error.strerror or error}.",
            fix="let it lead to a terminal, a pipe, or a file where there is room.",
            code=1,
        ) from error


def tell(text: str) -> None:
    """Print a line on stderr; if that is impossible it is dropped, for there is no better place to say so."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def drop(stream: IO[str]) -> None:
    """Let a stream that fails lead nowhere, so that what it still holds does not fail again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
