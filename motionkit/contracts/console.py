"""The terminal, as commands and evaluation protocols see it: talk on stderr, results on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

NOTHING_WRITTEN = "nothing was written"


class Console(Protocol):
    """What a command or a protocol talks to while it works."""

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
            after: What is true of a command that is stopped in the block.
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
