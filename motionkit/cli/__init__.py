"""The command line: parses, calls one function, prints."""

from __future__ import annotations

from typing import Any


def get_app() -> Any:
    """Return the Typer app, for tests (``CliRunner().invoke(get_app(), [...])``) and documentation tools."""
    from motionkit.cli._app import app

    return app


def main() -> None:
    """Run the ``motionkit`` command."""
    get_app()()


__all__ = ["get_app", "main"]
