"""What a command of a system is: its settings and a function, which is given the terminal and returns the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from motionkit.config import Settings

NOTHING_WRITTEN = "nothing was written"


class Console(Protocol):
    """The terminal of a command: talk on stderr, results on stdout."""

    @property
    def verbose(self) -> bool:
        """Whether ``-v`` was given."""

    @property
    def typed(self) -> str:
        """The command line as it was typed, quoted for a shell."""

    def write(self, text: str) -> None:
        """Print lines of the result on stdout."""

    def say(self, message: str) -> None:
        """Print a line for the user; ``-q`` hides it."""

    def warn(self, message: str) -> None:
        """Print a warning."""

    def working(
        self, command: str, total: int, *, after: str = NOTHING_WRITTEN
    ) -> AbstractContextManager[Callable[..., None]]:
        """Show progress while a block runs.

        Args:
            command: What is going on.
            total: Number of steps.
            after: What is true of a command that is stopped in the block.

        Returns:
            A context of ``step(count=1, note="")``, to be called after each step.
        """


@dataclass(frozen=True)
class Command:
    """A command of a system. The command line makes its options of the settings, and the rest of `run`'s parameters."""

    # Called as ``run(settings, console, **arguments)``. Further parameters are annotated for Typer; the docstring is
    # the help. Returns the document of ``--json``; of it ``text``, ``table``, ``closing`` (lines for people) and
    # ``next`` (commands to type next) are printed instead where people read.
    run: Callable[..., Mapping[str, Any]]
    settings: type[Settings]
    name: str = ""  # Of the command in documents; the function's own by default
    # Refuses what can be seen before any input is opened: ``check(settings, **arguments)``, of a dry run too.
    check: Callable[..., None] | None = None
    # What a dry run adds to the settings, such as data that follow from a run; called as `check`.
    plan: Callable[..., Mapping[str, Any]] | None = None
