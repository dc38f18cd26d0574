"""Files and folders that settings name: all that are not there are said at once, before any of them is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from motionkit.config._group import Cli
from motionkit.config._slots import Chosen
from motionkit.config._tree import dotted
from motionkit.errors import MotionkitError

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Place:
    """Marks a setting that names a file or folder, or several, to read.

    Attributes:
        words: Values that name none, such as ``starter``.
        hub: Whether an id of the Hugging Face hub, or another name without a folder, may stand there.
    """

    words: tuple[str, ...] = ()
    hub: bool = False


def require_places(settings: BaseModel) -> None:
    """Refuse settings that name several files or folders that are not there; who opens a single one says more of it.

    Raises:
        MotionkitError: Two or more are not there; says which.

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
        of_hub = place.hub and _HUB_ID.fullmatch(value) and not value.startswith(".")
        (doubtful if of_hub else absent).append(f"{flag} {value}")
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
