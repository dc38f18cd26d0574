"""The command line: parses, calls one function, prints."""

from __future__ import annotations


def main() -> None:
    """Run the ``motionkit`` command."""
    from motionkit.cli._app import app

    app()


__all__ = ["main"]
