"""Everything that is wrong with a set of settings, in one error."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from motionkit.config._slots import Chosen, Cli
from motionkit.config._tree import dotted
from motionkit.errors import MotionkitError

# Files and folders that settings name: all that are not there are said at once, before any of them is opened.

_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*(?<!\.pt)")


@dataclass(frozen=True)
class Place:
    """Marks a setting that names a file or folder, or several, to read."""

    words: tuple[str, ...] = ()  # Values that name none, such as ``starter``
    hub: bool = False  # Whether an id of the Hugging Face hub, ORG/NAME, may stand there
    name: bool = False  # Whether a name without a folder may, as text models have it


def require_places(settings: BaseModel) -> None:
    """Refuse settings that name several files or folders that are not there; who opens a single one says more of it.

    Example:
        >>> from motionkit.config import choose_one
        >>> class Wanted(BaseModel, arbitrary_types_allowed=True):
        ...     policy: Chosen
        >>> policy = choose_one("policies", "mdm", {"checkpoint": "x", "stats": "y", "text_model": "a/b"})
        >>> require_places(Wanted(policy=policy))
        Traceback (most recent call last):
        motionkit.errors.MotionkitError: 2 files or folders are not there: --policy.checkpoint x; --policy.stats y.
    """
    absent: list[str] = []
    doubtful: list[str] = []
    for flag, place, value in _named(settings, ()):
        if value in ("", *place.words) or _is_there(value):
            continue
        named = (place.hub and _HUB_ID.fullmatch(value)) or (place.name and re.fullmatch(r"\w[\w.-]*", value))
        (doubtful if named else absent).append(f"{flag} {value}")
    if len(absent) < 2:
        return
    why = f"no folder either, unless meant as a name or an id of the hub: {'; '.join(doubtful)}." if doubtful else ""
    raise MotionkitError(
        f"{len(absent)} files or folders are not there: {'; '.join(absent)}.",
        why=why,
        fix=f"check the paths; relative ones begin in {Path.cwd()}.",
    )


def _is_there(value: str) -> bool:
    try:
        return os.path.lexists(Path(value).expanduser())
    except RuntimeError:  # the home of a user who is not known
        return False


def _named(model: BaseModel, path: tuple[str, ...]) -> Iterator[tuple[str, Place, str]]:
    """Yield flag, mark and value of every setting that is a place, with those of the plugins that were chosen."""
    for name, field in type(model).model_fields.items():
        value: Any = getattr(model, name)
        marks = {type(mark): mark for mark in field.metadata}
        place = marks.get(Place)
        if isinstance(place, Place):
            flag = getattr(marks.get(Cli), "flag", "") or dotted((*path, name))
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, (str, Path)):
                    yield flag, place, str(one)
        elif isinstance(value, Chosen):
            yield from _named(value.options, (*path, name))
        elif isinstance(value, tuple) and value and all(isinstance(one, Chosen) for one in value):
            for one in value:
                yield from _named(one.options, (*path, name) if len(value) == 1 else (*path, name, one.label))
        elif isinstance(value, BaseModel):
            yield from _named(value, (*path, name))


_SHOWN = 12
"""Problems that are printed; a file of something else has hundreds."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    key: str  # Dotted key
    message: str  # What is wrong with it
    origin: str = ""  # Where its value came from
    value: str = ""  # The value, as text; empty when there is none. Long ones are printed shortened.
    fix: str = ""  # What to do about it
    flag: str = ""  # The flag it was given by, if it was
    choices: tuple[str, ...] = ()  # The words that it may be, where only some are taken

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
