"""The metadata of one installed package, read with care; where it is malformed, it is kept from other libraries."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

LARGEST = 4 * 2**20
"""Bytes of a metadata file; real ones have some thousands."""

_ENTRY_POINTS = "entry_points.txt"

_SHIELD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""What keeps ``import torch`` and ``import pydantic`` from reading all entry points in the processes we start."""

_hidden: set[str] = set()


def hide(files: Iterable[Path]) -> None:
    """Let these ``entry_points.txt`` look absent to the libraries of this process, and no others.

    ``import torch``, ``pydantic``, ``peft`` and more read the entry points of all packages, and fail (or wait for
    ever) when one is malformed that has nothing to do with them. One broken package must not stop every command.
    """
    _hidden.clear()
    _hidden.update(map(str, files))
    if _hidden and metadata.PathDistribution.read_text is _read_text:
        metadata.PathDistribution.read_text = _read_unless_hidden  # type: ignore[method-assign]
    for name, value in _SHIELD.items() if _hidden else ():
        os.environ.setdefault(name, value)


_read_text = metadata.PathDistribution.read_text


def _read_unless_hidden(self: metadata.PathDistribution, filename: str | os.PathLike[str]) -> str | None:
    if filename == _ENTRY_POINTS and str(file_of(self)) in _hidden:
        return None
    return _read_text(self, filename)


def file_of(distribution: metadata.Distribution, name: str = _ENTRY_POINTS) -> Path:
    """Return the place of one of its metadata files."""
    # The folder of a distribution has no public name; `locate_file` is relative to its parent.
    return Path(str(getattr(distribution, "_path", ""))) / name


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
        require_plain(file_of(distribution))
        text = distribution.read_text(_ENTRY_POINTS) or ""
    except (OSError, ValueError) as error:
        return "", str(error)
    return text, ""


def parses(distribution: metadata.Distribution, text: str) -> bool:
    """Whether the standard library can read its entry points, whose text is `text`."""
    try:
        return not text or distribution.entry_points is not None
    except Exception:  # whatever it is, other libraries would meet it too
        return False


def name_and_version(distribution: metadata.Distribution) -> tuple[str, str, str]:
    """Return both from the metadata, or the name of its folder, and why the metadata cannot be read."""
    name = version = problem = ""
    try:
        for file in ("METADATA", "PKG-INFO"):
            require_plain(file_of(distribution, file))
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    except Exception as error:  # whatever a foreign package's metadata does, it must not reach the others
        problem = str(error)
    return name or file_of(distribution).parent.name.removesuffix(".dist-info") or "unknown", version or "?", problem
