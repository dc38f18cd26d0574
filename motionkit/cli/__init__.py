"""The command line: parses, calls one function, prints."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

raw_arguments: ContextVar[tuple[str, ...]] = ContextVar("raw_arguments", default=())
"""Arguments of the command that is being built."""

command_line: ContextVar[tuple[str, ...]] = ContextVar("command_line", default=())
"""Everything after ``motionkit`` as it was typed, for the record."""

own_process: ContextVar[bool] = ContextVar("own_process", default=False)
"""Whether the process ends with the command."""


def leave(number: int, frame: object) -> None:
    """End the process at a signal, outside of commands, when there is nothing to report."""
    os._exit(128 + number)


def get_app() -> Any:
    """Return the Typer app, for tests (``CliRunner().invoke(get_app(), [...])``) and documentation tools."""
    from motionkit.cli._app import app

    return app


def main() -> None:
    """Run the ``motionkit`` command in a process of its own."""
    # Python lets the processes that it starts import from the current folder, which may hold anybody's files. Ours do
    # so only if this one does.
    with suppress(FileNotFoundError):  # the current folder is gone
        if not {"", str(Path.cwd())} & set(sys.path):
            os.environ.setdefault("PYTHONSAFEPATH", "1")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from motionkit.cli._streams import own_stdout

    own_stdout()
    own_process.set(True)
    try:
        get_app()()
    finally:
        sys.stdout = sys.stderr  # what other code prints while Python ends is not a result
        # Python looks for garbage several times while it ends: a second among the objects of torch's compiler.
        gc.freeze()


__all__ = ["get_app", "main"]
