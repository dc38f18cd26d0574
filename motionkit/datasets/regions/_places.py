"""Finds the files of a dataset, and says what was found where they are missing."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError

_PICTURES = ("images", "train2014", "train2017")
_WHOLE, _ENDS = 2_000_000_000, 1 << 16
"""Bytes of all pictures up to which each is read whole for the fingerprint; of each picture where there are more."""


def given(path: Path | None, name: str, wanted: str) -> Path:
    """Return the path of a dataset.

    Raises:
        MotionkitError: None was given, or there is nothing.
    """
    if path is None:
        raise MotionkitError(f"--dataset {name} needs --dataset.path.", fix=f"give {wanted}.")
    path = path.expanduser()
    if not path.exists():
        raise MotionkitError(f"{path} does not exist.", fix=f"give {wanted}.")
    return path


def one_file(path: Path, patterns: Sequence[str], wanted: str, *, part: str = "") -> Path:
    """Return the file itself, or the one in a folder that fits the first pattern any file fits.

    Args:
        path: File or folder.
        patterns: Such as ``instances*.json``, the best first.
        wanted: What they are, for messages.
        part: Text that the name must hold.

    Raises:
        MotionkitError: No file fits, or several do.
    """
    if path.is_file():
        return path
    for pattern in patterns:
        found = sorted(one for one in path.glob(pattern) if one.is_file() and part in one.name)
        if len(found) == 1:
            return found[0]
        if found:
            raise MotionkitError(
                f"{path} has several files {pattern}: {_some(one.name for one in found)}.", fix="give one of them."
            )
    raise MotionkitError(
        f"{path} has no {wanted}.", why=f"it holds {_some(one.name for one in sorted(path.iterdir())) or 'nothing'}.",
        fix="docs/region-data.md shows the layout.",
    )  # fmt: skip


def require_keys(rows: Iterable[Mapping[Any, Any]], wanted: Sequence[str], path: Path, *, row: str, none: str) -> None:
    """Refuse a file in which a key is found nowhere.

    Args:
        rows: Its rows.
        wanted: Keys that some row must have.
        path: The file.
        row: What it calls a row.
        none: What was found where there are no keys at all.

    Raises:
        MotionkitError: Names the keys that are missing, and those that were found.
    """
    found = {str(key) for one in rows for key in one}
    if missing := [key for key in wanted if key not in found]:
        raise MotionkitError(
            f"no {row} of {path} has {' or '.join(missing)}.",
            why=f"found were {', '.join(sorted(found)[:8]) or none}; wanted are {', '.join(wanted)}.",
            fix=f"docs/region-data.md shows a {row}.",
        )


def picture_folder(folder: Path, own: Path | None, first: str) -> Path:
    """Return the folder of the pictures: the one given, else the first usual one that holds the first picture.

    Args:
        folder: Where the JSON file is.
        own: What the user gave.
        first: Name of a picture.

    Raises:
        MotionkitError: What the user gave is no folder.
    """
    if own is not None:
        own = own.expanduser()
        if not own.is_dir():
            raise MotionkitError(f"--dataset.images {own} is no folder.", fix="give the folder of the images.")
        return own
    usual = [folder / name for name in _PICTURES]
    for place in (*usual, folder):
        if first and (place / first).is_file():
            return place
    return next((place for place in usual if place.is_dir()), folder)


def fingerprint(documents: Iterable[Path], pictures: Iterable[Path], root: Path) -> str:
    """Return a hash of the content of documents and pictures and of the pictures' names, wherever they lie.

    Pictures of more than 2 GB together are known by their sizes and the first and last 64 kB of each: to read all of
    them would take minutes.
    """
    mark = sha256()
    for path in documents:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                mark.update(block)
    sizes = {path: _size(path) for path in sorted(set(pictures))}
    whole = sum(sizes.values()) <= _WHOLE
    for path, size in sizes.items():
        name = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
        mark.update(f"{name.as_posix()} {size}\n".encode(errors="replace"))
        if size > 0:
            _add_content(mark, path, whole=whole)
    return mark.hexdigest()


def _size(path: Path) -> int:
    """Return the bytes of a plain file; -1 where there is none."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return -1
    return state.st_size if stat.S_ISREG(state.st_mode) else -1


def _add_content(mark: Any, path: Path, *, whole: bool) -> None:
    try:
        with path.open("rb") as file:
            if whole:
                while block := file.read(1 << 20):
                    mark.update(block)
            else:
                mark.update(file.read(_ENDS))
                file.seek(max(0, path.stat().st_size - _ENDS))
                mark.update(file.read())
    except OSError:  # it is left out, with the reason, when its rows are looked at
        mark.update(b"unreadable")


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
