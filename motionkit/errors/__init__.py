"""Exceptions: errors that a user can fix, and interruption by a signal; which name was meant, for their hints."""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterable
from typing import Any


class MotionkitError(Exception):
    """An error that the user can understand and fix.

    Args:
        message: What went wrong, with the offending value or path.
        why: Why that is a problem, when the message does not already say it.
        fix: What the user can do, preferably a command.
        code: Exit code; 2 while nothing was started, 1 after (see `as_late`).
        choices: The names of which one is needed, for tools that read the JSON of an error; the texts say them too.

    Example:
        >>> error = MotionkitError("run.json is damaged.", why="it ends in the middle.", fix="copy the folder again.")
        >>> error.sentence()
        'run.json is damaged (it ends in the middle). Fix: copy the folder again.'
    """

    def __init__(
        self, message: str, *, why: str = "", fix: str = "", code: int = 2, choices: Iterable[str] = ()
    ) -> None:
        self.message, self.why, self.fix = map(_cut, (message, why, fix))
        super().__init__(self.message)
        self.code = code
        self.choices = tuple(choices)

    def sentence(self) -> str:
        """Return message, reason and fix in one line, for lists of errors."""
        said = f"{_open(self.message)} ({_open(self.why)})." if self.why else self.message
        return f"{said} Fix: {_open(self.fix)}." if self.fix else said

    def document(self) -> dict[str, Any]:
        """Return the error as plain data for JSON."""
        found = {"code": self.code, "message": self.message, "why": self.why, "fix": self.fix}
        return found | {"choices": list(self.choices)} if self.choices else found

    def as_late(self) -> MotionkitError:
        """Return the same error for a command that had already started (exit code 1)."""
        late = copy.copy(self)
        late.code = 1
        late.__cause__ = self
        return late


class Interrupted(KeyboardInterrupt):
    """Raised by signal handlers for SIGINT and SIGTERM.

    Any code may raise a plain `KeyboardInterrupt`; this subclass always means a signal.

    Args:
        number: The signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def signal_of(error: KeyboardInterrupt) -> int:
    """Return the number of the signal behind an interruption; a plain one is taken for Ctrl-C."""
    return error.number if isinstance(error, Interrupted) else int(signal.SIGINT)


def _open(text: str) -> str:
    """Return a sentence without its full stop; an ellipsis stays."""
    return text if text.endswith("...") else text.removesuffix(".")


_LONGEST = 8000
"""Most characters of a text in an error, which may quote a file of any length."""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
