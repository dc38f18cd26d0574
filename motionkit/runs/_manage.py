"""Management of runs: tags, training data, removal, and the note that a model was measured on the test split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs._folder import LOCK, TAGS, hold, is_held, own_names
from motionkit.runs._listing import RunInfo, find
from motionkit.runs._record import RECORD, now, read_record
from motionkit.runs.atomic import discard, is_temporary, sweep, write_json

ENTRY = "test_split_opened"
"""Entry of run.json: one note for each time, oldest first."""

_TAG = re.compile(r"[\w][\w.+:-]{0,39}")


def tags_of(folder: Path) -> list[str]:
    """Return the tags of a run, sorted; none if the file is missing or damaged."""
    try:
        words = read_json(folder / TAGS, list)
    except MotionkitError:
        return []
    return sorted({tag for tag in words if isinstance(tag, str) and _TAG.fullmatch(tag)})


def change_tags(folder: Path, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> list[str]:
    """Add and remove tags of a run, and return its tags."""
    present, add, remove = set(tags_of(folder)), list(add), list(remove)
    if wrong := [tag for tag in add if not _TAG.fullmatch(tag)]:
        raise MotionkitError(
            f"{wrong[0]!r:.60} is not a tag.", why="a tag has up to 40 letters, digits and _.+:-, and no blanks."
        )
    if absent := [tag for tag in remove if tag not in present]:
        has = f"it has: {', '.join(sorted(present))}." if present else "it has none."
        raise MotionkitError(f"{folder} has no tag {absent[0]!r}.", fix=has)
    tags = sorted((present | set(add)) - set(remove))
    try:
        if tags:
            write_json(folder / TAGS, tags)
        else:
            (folder / TAGS).unlink(missing_ok=True)
    except OSError as error:
        raise MotionkitError(f"cannot write {folder / TAGS}: {error.strerror or error}.") from error
    return tags


def data_of(config: Mapping[str, Any]) -> str:
    """Return a run's dataset with its place, its data, or its environment; empty for none.

    Example:
        >>> data_of({"dataset": {"name": "humanml", "root": "data/mocap"}}), data_of({"env": {"name": "reach"}})
        ('humanml data/mocap', 'reach')
    """
    for key in ("dataset", "data", "env"):
        value = config.get(key)
        if isinstance(value, Mapping):
            name = value.get("name")
            place = next((value[word] for word in ("root", "path", "file", "id") if value.get(word)), "")
            parts = [name, *(place if isinstance(place, (list, tuple)) else [place])]
            if words := " ".join(str(part) for part in parts if part):
                return words
        elif isinstance(value, (list, tuple)):
            return " ".join(map(str, value))
        elif value:
            return str(value)
    return ""


def size_of(folder: Path) -> int:
    """Return the bytes of a run's files; links count as nothing."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def users_of(info: RunInfo, root: str | Path = "runs") -> list[Path]:
    """Return the other runs below `root` whose settings name a path in this one's folder.

    Relative paths are looked for from the current folder and from that above `root`.
    """
    folder, starts = info.directory.resolve(), (Path.cwd(), Path(root).resolve().parent)
    return [
        run.directory
        for run in find(None, root)
        if run.directory.resolve() != folder and any(_inside(text, folder, starts) for text in _texts(run.config))
    ]


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)


def _inside(text: str, folder: Path, starts: Iterable[Path]) -> bool:
    if folder.name not in text or len(text) > 4096 or "\0" in text:
        return False
    places = [Path(os.path.realpath(start / text)) for start in starts]
    return any(place == folder or folder in place.parents for place in places)


def check_removable(info: RunInfo) -> None:
    """Refuse to remove a run that a process works on, or one that is a link."""
    if info.directory.is_symlink():
        raise MotionkitError(f"{info.directory} is a link to {info.directory.resolve()}.", fix="remove its target.")
    if is_held(info.directory):
        raise MotionkitError(f"{info.directory} is running.", fix="stop it first: Ctrl-C there.")


def remove_run(info: RunInfo) -> list[str]:
    """Remove motionkit's files from a run's folder, and the folder if it is then empty.

    Returns:
        Names of other files, which stay.
    """
    check_removable(info)
    folder = info.directory
    try:
        with hold(folder):
            for name in (*own_names(info.record), RECORD):  # the record last: until then it is still a run
                if os.path.lexists(folder / name):
                    discard(folder / name)
            sweep(folder)
            left = [path.name for path in folder.iterdir() if path.name != LOCK and not is_temporary(path)]
            if (folder / RECORD).exists():
                raise MotionkitError(f"{folder} cannot be removed.", why="no permission?", code=1)
            (folder / LOCK).unlink(missing_ok=True)
        if not left:
            folder.rmdir()
    except OSError as error:
        raise MotionkitError(f"{folder} cannot be removed: {error.strerror or error}.", code=1) from error
    return sorted(left)


def note_test_split(run: Path, command: str) -> str:
    """Add to run.json that the test split was opened to measure this run's model.

    Returns:
        Why it could not be noted; empty on success.
    """
    try:
        with hold(run):
            record = read_record(run)
            if record is None:
                return f"{run} has no run.json"
            before = (record.model_extra or {}).get(ENTRY)
            notes = before if isinstance(before, list) else []
            record.annotate(**{ENTRY: [*notes, {"when": now(), "command": command}]})
            record.write(run)
    except MotionkitError as error:
        return error.sentence()
    except OSError as error:
        return f"{run}: {error.strerror or error}"
    return ""
