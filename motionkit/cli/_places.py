"""Files and folders that settings name (`Place`): all that are not there in one error, before any is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from motionkit.config import HUB_ID, Chosen, Cli, Place, dotted
from motionkit.errors import MotionkitError


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
            mark = marks.get(Cli)
            flag = (mark.flag if isinstance(mark, Cli) else "") or dotted((*path, name))
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
