"""All wrong values of settings in one error (`SettingsError`), and which setting was meant (`which_setting`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from motionkit.config._tree import at_or_above, dotted
from motionkit.documents import read_json
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.plugins import packages

_SHOWN = 12
"""Most problems that are printed; an unrelated file has hundreds."""


@dataclass(frozen=True)
class Problem:
    """A problem with one setting."""

    key: str  # Dotted key
    message: str  # What is wrong
    origin: str = ""  # Origin of the value
    value: str = ""  # The value as text, if there is one; shortened when printed
    fix: str = ""  # What to do about it
    flag: str = ""  # The flag that gave it, if any
    choices: tuple[str, ...] = ()  # The allowed words, if only some are

    def __str__(self) -> str:
        sign = " " if self.flag else " = "
        head = f"{self.flag or self.key}{sign}{_short(self.value)}" if self.value else self.flag or self.key
        key = f"{self.key}, " if self.flag else ""
        origin = f"  ({key}from {self.origin})" if self.origin else ""
        fix = f"; {self.fix}" if self.fix else ""
        return f"  {head}{origin}\n      {self.message}{fix}"


class SettingsError(MotionkitError):
    """One or several settings are wrong; `problems` holds all of them."""

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


def from_validation(error: ValidationError, origins: Mapping[str, str]) -> list[Problem]:
    """Turn a pydantic error into problems, each with the origin of its value."""
    problems = []
    for item in error.errors(include_url=False):
        path = [str(part) for part in item["loc"]]
        plain = isinstance(item["input"], (str, int, float, bool))
        value = _short(repr(item["input"])) if plain or item["type"] not in ("missing", "value_error") else ""
        message = str(item["msg"]).removeprefix("Value error, ")
        if item["type"] == "missing":
            message = f"it has no default; give {dotted(path)}"
        # Pydantic's location may go deeper than a key (an item of a list) or stop above it (a whole group).
        origin = at_or_above(origins, ".".join(path))
        # Pydantic names the words of a choice only in prose: 'a', 'b' or 'c'.
        words = re.findall("'([^']*)'", item["ctx"]["expected"]) if item["type"] == "literal_error" else ()
        origin = origin if origin and origin != "default" else ""
        problems.append(Problem(".".join(path), message, origin, value, choices=tuple(words)))
    return problems


@cache
def other_words() -> Mapping[str, tuple[str, ...]]:
    """Return other tools' words for settings, options and commands here: ``other_words.json``, and the packages' own.

    Only those that a command has are suggested; of a dotted key the last part counts.
    """
    words: dict[str, list[str]] = read_json(Path(__file__).with_name("other_words.json"), dict)
    return {word: tuple(names) for word, names in {**words, **packages.synonyms()}.items()}


def which_setting(word: str, names: Iterable[str]) -> str:
    """Return ``did you mean ...?`` for the setting, option or command that is meant, or nothing.

    Example:
        >>> which_setting("lr", ["optim.learning_rate", "seed"])
        'did you mean optim.learning_rate?'
    """
    return did_you_mean(word, names, synonyms=other_words())


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
