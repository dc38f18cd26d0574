"""All problems of a set of settings, in one error: wrong values (`SettingsError`), and files that are not there.

`require_places` reports all missing files and folders that settings name (`Place`), before any of them is opened.
"""

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

_HUB_NAME = r"[A-Za-z0-9][\w.-]{0,95}"

HUB_ID = re.compile(rf"{_HUB_NAME}/{_HUB_NAME}(?<!\.pt)")
"""An id of the Hugging Face hub, ORG/NAME; a name that ends in ``.pt`` is a file."""

OLD_HUB_ID = re.compile(rf"{_HUB_NAME}(?<!\.pt)")
"""An id without an owner, as the hub's oldest models have (``bert-base-uncased``)."""

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


def from_validation(error: ValidationError, origins: Mapping[str, str], prefix: tuple[str, ...] = ()) -> list[Problem]:
    """Turn a pydantic error into problems, each with the origin of its value."""
    problems = []
    for item in error.errors(include_url=False):
        path = (*prefix, *(str(part) for part in item["loc"]))
        key = ".".join(path)
        message = str(item["msg"]).removeprefix("Value error, ")
        value = "" if item["type"] in ("missing", "value_error") and not _plain(item["input"]) else _show(item["input"])
        if item["type"] == "missing":
            message = f"it has no default; give --{key.replace('_', '-')}"
        # Pydantic names the words of a choice only in prose: 'a', 'b' or 'c'.
        words = re.findall("'([^']*)'", item["ctx"]["expected"]) if item["type"] == "literal_error" else ()
        problems.append(Problem(key, message, _origin(path, origins), value, choices=tuple(words)))
    return problems


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


@dataclass(frozen=True)
class Place:
    """Marks a setting that names a file or folder, or several, to read."""

    words: tuple[str, ...] = ()  # Values that are not paths, such as ``starter``
    hub: bool = False  # Whether it may be an id of the Hugging Face hub, ORG/NAME
    name: bool = False  # Whether it may be a plain name, as of a text model


def require_places(settings: BaseModel) -> None:
    """Refuse settings that name several missing files or folders; a single one is left to the code that opens it.

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
        named = (place.hub and HUB_ID.fullmatch(value)) or (place.name and re.fullmatch(r"\w[\w.-]*", value))
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
    """Yield flag, mark and value of every setting marked as a `Place`, also of the chosen plugins."""
    for name, field in type(model).model_fields.items():
        value: Any = getattr(model, name)
        marks = {type(mark): mark for mark in field.metadata}
        place = marks.get(Place)
        if isinstance(place, Place):
            flag = getattr(marks.get(Cli), "flag", "") or dotted((*path, name))
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, (str, Path)):
                    yield flag, place, str(item)
        elif isinstance(value, Chosen):
            yield from _named(value.options, (*path, name))
        elif isinstance(value, tuple) and value and all(isinstance(item, Chosen) for item in value):
            for item in value:
                yield from _named(item.options, (*path, name) if len(value) == 1 else (*path, name, item.label))
        elif isinstance(value, BaseModel):
            yield from _named(value, (*path, name))
