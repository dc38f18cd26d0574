"""The metadata of one installed package, read with care; where it is malformed, it is kept from other libraries."""

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
_ABOUT = ("METADATA", "PKG-INFO")

_SHIELD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""What keeps ``import torch`` and ``import pydantic`` from reading all entry points in the processes we start."""

_hidden: set[Path] = set()
_discover = metadata.Distribution.discover


def hide(folders: Iterable[Path]) -> None:
    """Let the packages with these metadata folders look absent to the libraries of this process, and no others.

    ``import torch``, ``pydantic``, ``peft`` and more read the metadata of all packages, and fail (or wait for ever)
    when one is malformed that has nothing to do with them. One broken package must not stop every command.
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
    # It has no public name; `locate_file` is relative to its parent.
    return Path(str(getattr(distribution, "_path", "")))


def require_plain(path: Path) -> None:
    """Refuse metadata that is no file of ordinary size: reading a pipe or a device may wait for ever.

    Raises:
        ValueError: It is no file, or too large.
        OSError: It cannot be looked at, as a link that leads to itself.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):  # there is none, or it is in a zip file
        return
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path.name} is not a file")
    if found.st_size > LARGEST:
        raise ValueError(f"{path.name} has {found.st_size} bytes, more than {LARGEST}")


def entry_points_text(distribution: metadata.Distribution) -> tuple[str, str]:
    """Return the text of its entry points, and why they cannot be read."""
    try:
        require_plain(folder_of(distribution) / ENTRY_POINTS)
        return distribution.read_text(ENTRY_POINTS) or "", ""
    except (OSError, ValueError) as error:
        return "", str(error)


def usable(distribution: metadata.Distribution, text: str) -> bool:
    """Whether the standard library's ``entry_points()`` survives it; `text` is that of its entry points."""
    try:
        for file in _ABOUT:
            require_plain(folder_of(distribution) / file)
        tuple(distribution.entry_points if text else ())
        # A package whose folder has no name must have one in its metadata.
        return getattr(distribution, "_normalized_name", "") is not None
    except Exception:  # whatever it is, other libraries would meet it too
        return False


def name_and_version(distribution: metadata.Distribution) -> tuple[str, str, str]:
    """Return both from the metadata, or the name of its folder, and why the metadata cannot be read."""
    name = version = problem = ""
    try:
        for file in _ABOUT:
            require_plain(folder_of(distribution) / file)
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    except Exception as error:  # whatever a foreign package's metadata does, it must not reach the others
        problem = str(error)
    return name or folder_of(distribution).name.removesuffix(".dist-info") or "unknown", version or "?", problem
