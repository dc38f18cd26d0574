"""The command line: parses, calls one function, prints."""

from __future__ import annotations

import signal
import sys
from typing import Any

from motionkit.cli._leave import leave


def get_app() -> Any:
    """Return the Typer app, for tests (``CliRunner().invoke(get_app(), [...])``) and documentation tools."""
    from motionkit.cli._app import app

    return app


def main() -> None:
    """Run the ``motionkit`` command in a process of its own."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from motionkit.cli._streams import own_stdout

    own_stdout()
    try:
        get_app()()
    finally:
        sys.stdout = sys.stderr  # what other code prints while Python ends is no result


__all__ = ["get_app", "main"]
