"""A command of a system on the command line: its options, its terminal, and printing of its result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import typer

from motionkit.cli import command_line, output
from motionkit.cli._places import require_places
from motionkit.cli._stop import working
from motionkit.cli.settings import add_command, show_plan
from motionkit.config import Resolved, Settings
from motionkit.contracts.console import NOTHING_WRITTEN, Command


class Terminal:
    """The `motionkit.contracts.console.Console` of commands that run here."""

    write, say, warn = staticmethod(output.write), staticmethod(output.say), staticmethod(output.warn)

    def __init__(self, label: str) -> None:
        self._label = label  # of the command, before its progress

    def show(self, address: str) -> None:
        """Open an address in a browser, where there is one and a person reads what is printed."""
        if sys.stderr.isatty():
            output.open_address(address)

    def working(self, total: int, *, after: str = NOTHING_WRITTEN) -> AbstractContextManager[Callable[..., None]]:
        """Show progress while the block runs."""
        return working(self._label, total, after=after)

    @property
    def verbose(self) -> bool:
        """Whether ``-v`` was given."""
        return output.is_verbose()

    @property
    def typed(self) -> str:
        """The command line as it was typed."""
        return shlex.join(["motionkit", *command_line.get()])


def register_command(command: Command, app: typer.Typer) -> None:
    """Register a command of a system on `app`.

    ``--dry-run`` prints the settings and does not run it, only its `check` and `plan`.
    """
    label = command.name or command.run.__name__.replace("_", "-")

    def run(resolved: Resolved[Settings], dry_run: bool, as_json: bool, arguments: dict[str, Any]) -> None:
        require_places(resolved.settings)
        if command.check is not None:
            command.check(resolved.settings, **arguments)
        if dry_run:
            plan = command.plan(resolved.settings, **arguments) if command.plan is not None else {}
            show_plan(label, resolved, plan, as_json=as_json)
            return
        present(label, command.run(resolved.settings, Terminal(label), **arguments), as_json=as_json)

    add_command(app, command.settings, run, label, like=command.run, words=command.words)


def present(label: str, result: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the result of a command: ``text``, ``table``, ``closing`` and ``next`` for people, the rest as document.

    Args:
        label: Name of the command in the document.
        result: The document with these parts; ``failure`` ends the command with exit code 1.
        as_json: Print only the document.
    """
    document = dict(result)
    parts = ("text", "table", "closing", "next", "failure")
    text, tables, closing, then, failure = (document.pop(key, None) for key in parts)
    if text and not as_json:
        output.write(text)
    if not as_json:
        output.tables(tables)
        for line in closing or ():
            output.say(line)
        for line in output.as_next(then or ()):
            output.say(line, whole=True)
    output.finish({"command": label, **document}, failure, json=as_json)
