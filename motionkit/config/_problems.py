"""Everything that is wrong with a set of settings, in one error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from motionkit.errors import MotionkitError

_SHOWN = 12
"""Problems that are printed; a file of something else has hundreds."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        key: Dotted key.
        message: What is wrong with it.
        origin: Where its value came from.
        value: The value, as text; empty when there is none. Long ones are printed shortened.
        fix: What to do about it.
        flag: The flag it was given by, if it was.
        choices: The words that it may be, where only some are taken.
    """

    key: str
    message: str
    origin: str = ""
    value: str = ""
    fix: str = ""
    flag: str = ""
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        sign = " " if self.flag else " = "
        head = f"{self.flag or self.key}{sign}{_short(self.value)}" if self.value else self.flag or self.key
        key = f"{self.key}, " if self.flag else ""
        origin = f"  ({key}from {self.origin})" if self.origin else ""
        fix = f"; {self.fix}" if self.fix else ""
        return f"  {head}{origin}\n      {self.message}{fix}"


class SettingsError(MotionkitError):
    """One or several settings are wrong.

    Attributes:
        problems: All of them.
    """

    def __init__(self, problems: Sequence[Problem], command: str = "") -> None:
        count = len(problems)
        shown = problems if count <= _SHOWN + 1 else problems[:_SHOWN]
        body = "\n".join(str(problem) for problem in shown)
        if count > len(shown):
            body += f"\n  and {count - len(shown)} more"
        show = f"motionkit config show {command}" if command else "motionkit config show COMMAND"
        super().__init__(
            f"{count} invalid setting{'s' if count > 1 else ''}\n{body}",
            fix=f"{show} lists every setting.",
            choices=problems[0].choices if count == 1 else (),
        )
        self.problems = tuple(problems)


def from_validation(error: ValidationError, origins: Mapping[str, str], prefix: tuple[str, ...] = ()) -> list[Problem]:
    """Turn pydantic's findings into problems, each with the origin of its value."""
    found = []
    for item in error.errors(include_url=False):
        path = (*prefix, *(str(part) for part in item["loc"]))
        key = ".".join(path)
        message = str(item["msg"]).removeprefix("Value error, ")
        value = "" if item["type"] in ("missing", "value_error") and not _plain(item["input"]) else _show(item["input"])
        if item["type"] == "missing":
            message = f"it has no default; give --{key.replace('_', '-')}"
        # Pydantic names the words of a choice in prose alone: 'a', 'b' or 'c'.
        words = re.findall("'([^']*)'", item["ctx"]["expected"]) if item["type"] == "literal_error" else ()
        found.append(Problem(key, message, _origin(path, origins), value, choices=tuple(words)))
    return found


def _origin(path: tuple[str, ...], origins: Mapping[str, str]) -> str:
    # Pydantic's location may go deeper than a key (an item of a list) or stop above it (a whole group).
    for end in range(len(path), 0, -1):
        if (origin := origins.get(".".join(path[:end]))) is not None:
            return "" if origin == "default" else origin
    return ""


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


def _show(value: Any) -> str:
    return _short(repr(value))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
