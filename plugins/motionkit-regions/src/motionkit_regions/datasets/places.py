"""Where the files of region data are: in a folder, in a usual place below it, or on the hub; and their fingerprint."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from motionkit.config import HUB_ID
from motionkit.errors import MotionkitError, first_line

_KNOWN = "HaochenWang/Grasp-Any-Region-Dataset"

_PICTURES = ("images", "train2014", "train2017")
_WHOLE, _ENDS = 2_000_000_000, 1 << 16
"""Bytes of all pictures up to which all of them are hashed; bytes at both ends of each that are hashed otherwise."""


def given(path: Path | None, name: str, content: str) -> Path:
    """Return the path of a dataset."""
    if path is None:
        raise MotionkitError(f"--dataset {name} needs --dataset.path.", fix=f"give {content}.")
    path = path.expanduser()
    if not path.exists():
        raise MotionkitError(f"{path} does not exist.", fix=f"give {content}.")
    return path


def one_file(
    path: Path,  # file or folder
    patterns: Sequence[str],  # such as ``instances*.json``, the best first
    kind: str,  # what they are, for messages
    *,
    part: str = "",  # text that the name must hold
) -> Path:
    """Return the file itself, or the single file of a folder that matches the first pattern with a match."""
    if path.is_file():
        return path
    for pattern in patterns:
        matches = sorted(file for file in path.glob(pattern) if file.is_file() and part in file.name)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise MotionkitError(
                f"{path} has several files {pattern}: {_some(file.name for file in matches)}.", fix="give one of them."
            )
    raise MotionkitError(
        f"{path} has no {kind}.", why=f"it holds {_some(file.name for file in sorted(path.iterdir())) or 'nothing'}.",
        fix="docs/region-data.md shows the layout.",
    )  # fmt: skip


def picture_folder(folder: Path, chosen: Path | None, first: str) -> Path:
    """Return the folder of the pictures: the one given, else the first usual one that holds the first picture."""
    if chosen is not None:
        chosen = chosen.expanduser()
        if not chosen.is_dir():
            raise MotionkitError(f"--dataset.images {chosen} is not a folder.", fix="give the folder of the images.")
        return chosen
    usual = [folder / name for name in _PICTURES]
    for place in (*usual, folder):
        if first and (place / first).is_file():
            return place
    return next((place for place in usual if place.is_dir()), folder)


def find_folder(place: Path | None, revision: str, subset: str) -> tuple[Path, str]:
    """Return the folder, and the commit if it is from the hub."""
    if place is None:
        raise MotionkitError("--dataset grasp-any-region needs --dataset.path.", fix=f"give its folder, or {_KNOWN}.")
    folder, path = place.expanduser(), place.as_posix()
    if folder.is_dir():
        return folder, ""
    if folder.exists() or not HUB_ID.fullmatch(path):
        raise MotionkitError(f"there is no folder {path}.", fix=f"give the folder of the dataset, or {_KNOWN}.")
    return _download(path, revision, subset)


def _download(name: str, revision: str, subset: str) -> tuple[Path, str]:
    from huggingface_hub import snapshot_download

    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    prefixes = [first.strip() for first in subset.split(",") if first.strip()]
    patterns = [f"{_letters(first)}*/{kind}" for first in prefixes for kind in ("*.arrow", "*.json")]
    try:
        cached = snapshot_download(
            name, repo_type="dataset", revision=revision or None, local_files_only=offline,
            allow_patterns=patterns or ["*.arrow", "*.json"],
        )  # fmt: skip
    # The hub's client raises errors of its own, of the network and of the disk.
    except Exception as error:
        raise MotionkitError(
            f"there is no folder {name}, and the dataset cannot be had from the hub: {first_line(error)}",
            why="HF_HUB_OFFLINE is set, and the cache does not have it." if offline else "",
            fix=f"hf download {name} --repo-type dataset --local-dir data, then --dataset.path data",
        ) from error
    folder = Path(cached)
    return folder, folder.name


def _letters(first: str) -> str:
    """Return a pattern for a name's first letters in either case."""
    return "".join(
        f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else letter
        for letter in first
        if letter not in "*?[]"
    )


def require_keys(rows: Iterable[Mapping[Any, Any]], needed: Sequence[str], path: Path, *, row: str, none: str) -> None:
    """Refuse a file whose rows all lack a key."""
    keys = {str(key) for table in rows for key in table}
    if missing := [key for key in needed if key not in keys]:
        raise MotionkitError(
            f"no {row} of {path} has {' or '.join(missing)}.",
            why=f"found were {', '.join(sorted(keys)[:8]) or none}; wanted are {', '.join(needed)}.",
            fix=f"docs/region-data.md shows a {row}.",
        )


def fingerprint(documents: Iterable[Path], pictures: Iterable[Path], root: Path) -> str:
    """Return a hash of documents, pictures and the pictures' names.

    Of pictures of more than 2 GB together only sizes and the first and last 64 kB of each are hashed: reading all would
    take minutes.
    """
    mark = sha256()
    for path in documents:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                mark.update(block)
    sizes = {path: _size(path) for path in sorted(set(pictures))}
    fully = sum(sizes.values()) <= _WHOLE
    for path, size in sizes.items():
        name = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
        mark.update(f"{name.as_posix()} {size}\n".encode(errors="replace"))
        if size > 0:
            _add_content(mark, path, fully=fully)
    return mark.hexdigest()


def _size(path: Path) -> int:
    """Return the bytes of a plain file; -1 if there is none."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return -1
    return state.st_size if stat.S_ISREG(state.st_mode) else -1


def _add_content(mark: Any, path: Path, *, fully: bool) -> None:
    try:
        with path.open("rb") as file:
            if fully:
                while block := file.read(1 << 20):
                    mark.update(block)
            else:
                mark.update(file.read(_ENDS))
                file.seek(max(0, path.stat().st_size - _ENDS))
                mark.update(file.read())
    except OSError:  # it is left out, with the reason, when its rows are indexed
        mark.update(b"unreadable")


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
