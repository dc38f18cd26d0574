"""Standard streams: stdout carries what motionkit prints as a result and nothing else, stderr the rest.

Plugins and libraries print as well, from Python, C and child processes. `own_stdout` gives motionkit a separate
descriptor for results and redirects the process's descriptor 1 to stderr; `aside` does the same for ``print`` and
``sys.stdout`` while other code may run.
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
"""The stream of results while ``sys.stdout`` is redirected."""


def own_stdout() -> None:
    """Prepare the streams of a process that runs only motionkit.

    A closed stream (``>&-``) is reopened, so that no other file gets its number: stdout read-only, so that writing
    results fails and is reported; stdin and stderr on the null device.
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
    descriptor, buffering = os.dup(1), 1 if like.line_buffering else -1
    os.dup2(2, 1)
    sys.stdout = os.fdopen(descriptor, "w", buffering, encoding=like.encoding, errors=like.errors, closefd=False)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Redirect ``sys.stdout`` to stderr while the block runs; `results` is the stream before."""
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
        BrokenPipeError: The reader closed the pipe.
    """
    if launch_of().quiet:
        return
    with writing():
        print(text, file=results())


def flush() -> None:
    """Flush the results; raises as `write`."""
    with writing():
        results().flush()


def flush_or_drop() -> None:
    """Flush the results of a failed command, if possible."""
    try:
        flush()
    except (MotionkitError, OSError):
        drop(results())


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Turn an operating-system error of the block into one about writing results."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MotionkitError(
            f"the result cannot be written to standard output: {error.strerror or error}.",
            fix="redirect it to a terminal, a pipe, or a file with free space.",
            code=1,
        ) from error


def tell(text: str) -> None:
    """Print a line on stderr; if that is impossible it is dropped."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def drop(stream: IO[str]) -> None:
    """Redirect a failing stream to the null device, so that its buffer does not fail again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
