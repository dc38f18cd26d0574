"""Exceptions: errors that a user can fix, and interruption by a signal; and which name was meant, for their hints.

`nearest` is the one rule by which an error suggests a name in place of one that is not there.
"""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterable, Mapping
from typing import Any

_MOST, _MOST_OF_LONG, _LONG, _SHORT = 2, 3, 10, 3
"""Letters that may be wrong, those of names of ten letters and more, and letters of a last part that may fit alone."""

_LONGEST = 8000
"""Most characters of a text in an error, which may quote a file of any length."""


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


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text; the name of its class if it has none."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def signal_of(error: KeyboardInterrupt) -> int:
    """Return the number of the signal behind an interruption; a plain one is taken for Ctrl-C."""
    return error.number if isinstance(error, Interrupted) else int(signal.SIGINT)


def nearest(
    word: str, names: Iterable[str], n: int = 1, *, synonyms: Mapping[str, tuple[str, ...]] | None = None
) -> list[str]:
    """Return the names that a word may be meant for.

    A name counts if its letters are few edits away (2, or 3 in long names, and fewer than half of them; two letters
    swapped are one edit), or if it is a synonym. Case, leading dashes, and ``_`` for ``-`` are
    alike. Of dotted names the last part alone may fit, such as that of ``reward.alpha`` if ``alpha`` was typed.

    Args:
        word: The word.
        names: The names that there are.
        n: Most names to return.
        synonyms: Names that a word may also mean, of dotted ones the last part; the first is the best.

    Returns:
        The best ones, the best first; none if nothing is near.

    Example:
        >>> nearest("--learning-rat", ["--learning-rate", "--device"]), nearest("alhpa", ["reward.alpha"])
        (['--learning-rate'], ['reward.alpha'])
        >>> nearest("--loop", ["--clips", "--help", "--up"])
        []
    """
    wanted = _plain(word)
    group, _, last = wanted.rpartition(".")
    words = (synonyms or {}).get(last, ())
    found = []
    for place, name in enumerate(dict.fromkeys(names)):
        whole = _plain(name)
        own, _, tail = whole.rpartition(".")
        if tail in words and last != tail:
            found.append((0.5, own != group, words.index(tail), place, name))
        elif _alike(wanted, whole):
            found.append((float(edits(wanted, whole)), False, 0, place, name))
        elif len(tail) >= _SHORT and _alike(last, tail):
            found.append((edits(last, tail) + 0.5, own != group, 0, place, name))
    return [name for *_, name in sorted(found)[:n]]


def did_you_mean(word: str, names: Iterable[str], *, synonyms: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Return ``did you mean ...?`` for the name that `nearest` finds, or nothing."""
    return "".join(f"did you mean {name}?" for name in nearest(word, names, synonyms=synonyms))


def edits(first: str, second: str) -> int:
    """Return how many letters must be changed, added, left out or swapped with their neighbour to get the other word.

    Example:
        >>> edits("reward", "rewrad"), edits("loop", "help")
        (1, 3)
    """
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        older, before = before, row
        row = [i]
        for j, other in enumerate(second, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _alike(first: str, second: str) -> bool:
    """Whether two words are few edits apart; the lengths decide most cases at once."""
    longer = max(len(first), len(second))
    most = min(_MOST_OF_LONG if longer >= _LONG else _MOST, (longer - 1) // 2)
    return abs(len(first) - len(second)) <= most and edits(first, second) <= most


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("_", "-")


def _open(text: str) -> str:
    """Return a sentence without its full stop; an ellipsis stays."""
    return text if text.endswith("...") else text.removesuffix(".")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
