"""Metadata of one installed package, which may be malformed; malformed metadata is hidden from other libraries."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

LARGEST = 4 * 2**20
"""Bytes of a metadata file; real ones have some thousands."""

ENTRY_POINTS = "entry_points.txt"

_SHIELD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Variables that keep ``import torch`` and ``import pydantic`` from reading all entry points in child processes."""

_hidden: set[Path] = set()
_discover = metadata.Distribution.discover


def hide(folders: Iterable[Path]) -> None:
    """Hide the packages with these metadata folders, and no others, from the libraries of this process.

    ``import torch``, ``pydantic``, ``peft`` and more read the metadata of all packages, and fail (or wait for ever)
    when that of an unrelated package is malformed. One broken package must not stop every command.
    """
    _hidden.clear()
    _hidden.update(folders)
    if _hidden:
        metadata.Distribution.discover = staticmethod(_discover_others)  # type: ignore[method-assign]
        for name, value in _SHIELD.items():
            os.environ.setdefault(name, value)


def _discover_others(**context: Any) -> Iterator[metadata.Distribution]:
    return (found for found in _discover(**context) if folder_of(found) not in _hidden)


def folder_of(distribution: metadata.Distribution) -> Path:
    """Return the folder of its metadata files."""
    # It has no public name, and is no `Path` in a zip file; `locate_file` is relative to its parent.
    folder = getattr(distribution, "_path", "")
    return folder if isinstance(folder, Path) else Path(str(folder))


def require_plain(folder: Path, name: str) -> None:
    """Refuse a metadata file that is no regular file, since reading a pipe or a device may wait for ever, or too large.

    Raises:
        ValueError: It is no regular file, or larger than `LARGEST`.
        OSError: Its status cannot be read, as of a link to itself.
    """
    try:
        found = os.stat(f"{folder}/{name}")  # noqa: PTH116 - for every package at every start; a Path takes longer
    except (FileNotFoundError, NotADirectoryError):  # there is none, or it is in a zip file
        return
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{name} is not a file")
    if found.st_size > LARGEST:
        raise ValueError(f"{name} has {found.st_size} bytes, more than {LARGEST}")


def entry_points_text(distribution: metadata.Distribution) -> tuple[str, str]:
    """Return the text of its entry points, and the reason when they cannot be read."""
    try:
        require_plain(folder_of(distribution), ENTRY_POINTS)
        return distribution.read_text(ENTRY_POINTS) or "", ""
    except (OSError, ValueError) as error:
        return "", str(error)


def usable(distribution: metadata.Distribution, text: str) -> bool:
    """Whether the standard library's ``entry_points()`` survives it; `text` is that of its entry points."""
    try:
        tuple(distribution.entry_points if text else ())
    except Exception:  # other libraries would raise it too
        return False
    folder = folder_of(distribution)  # NAME-VERSION.dist-info; else the name must be in its metadata
    named = folder.suffix in (".dist-info", ".egg-info") and folder.stem.partition("-")[0] != ""
    return named or name_and_version(distribution)[0] != ""


def name_and_version(distribution: metadata.Distribution) -> tuple[str, str, str]:
    """Return both from its metadata, empty when missing, and the reason when it cannot be read."""
    try:
        for file in ("METADATA", "PKG-INFO"):
            require_plain(folder_of(distribution), file)
        about = distribution.metadata
        return about["Name"] or "", about["Version"] or "", ""
    except Exception as error:  # whatever a foreign package's metadata does, it must not reach the others
        return "", "", str(error)
