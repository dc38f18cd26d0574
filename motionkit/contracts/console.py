"""A command of a system, and the terminal of commands and evaluation protocols: talk on stderr, results on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from motionkit.config import Settings

NOTHING_WRITTEN = "nothing was written"


class Console(Protocol):
    """The terminal of a command or a protocol while it works."""

    @property
    def typed(self) -> str:
        """The command line as it was typed, quoted for a shell."""

    @property
    def verbose(self) -> bool:
        """Whether ``-v`` was given."""

    def write(self, text: str) -> None:
        """Print lines of the result on stdout."""

    def say(self, message: str) -> None:
        """Print a line for the user on stderr; ``-q`` hides it."""

    def warn(self, message: str) -> None:
        """Print a warning on stderr."""

    def show(self, address: str) -> None:
        """Open an address in a browser, where there is one."""

    def working(self, total: int, *, after: str = NOTHING_WRITTEN) -> AbstractContextManager[Callable[..., None]]:
        """Show progress while the block runs; it gets ``step(count=1, note="")``.

        Args:
            total: Number of steps.
            after: The state if the command is stopped in the block, for the message.
        """


class Quiet:
    """A console that shows nothing, to work from Python."""

    typed = "motionkit"
    verbose = False

    def write(self, text: str) -> None:
        """Show nothing."""

    def say(self, message: str) -> None:
        """Show nothing."""

    def warn(self, message: str) -> None:
        """Show nothing."""

    def show(self, address: str) -> None:
        """Open nothing."""

    @contextmanager
    def working(self, total: int, *, after: str = NOTHING_WRITTEN) -> Iterator[Callable[..., None]]:
        """Show no progress."""
        yield lambda count=1, note="": None


@dataclass(frozen=True)
class Command:
    """A command of a system. Its command-line options are the settings and the further parameters of `run`."""

    # Called as ``run(settings, console, **arguments)``. Further parameters are annotated for Typer; the docstring is
    # the help. Returns the document of ``--json``; without ``--json`` its ``text``, ``table``, ``closing`` (lines) and
    # ``next`` (commands to type next) are printed instead.
    run: Callable[..., Mapping[str, Any]]
    settings: type[Settings]
    name: str = ""  # Name of the command in documents; by default that of the function
    # Refuses bad input before anything is opened: ``check(settings, **arguments)``, also in a dry run.
    check: Callable[..., None] | None = None
    # Returns what a dry run adds to the settings, such as data that follow from a run; called like `check`.
    plan: Callable[..., Mapping[str, Any]] | None = None
    # Returns the words that were typed after its name as they are to be parsed, such as an option with its usual value.
    words: Callable[[list[str]], list[str]] | None = None
