"""Checks before the work that its result can be written."""

from __future__ import annotations

import os
from pathlib import Path

from motionkit.errors import MotionkitError


def require_writable(path: Path, *, parents: bool = False) -> None:
    """Refuse a path that cannot be written.

    Args:
        path: The file; an existing one will be replaced.
        parents: Whether missing folders will be made.

    Raises:
        MotionkitError: It is a folder, a device or a pipe, its folder is missing, or permission is.
        OSError: Its name is longer than the system allows.
    """
    there = path.exists()
    if path.is_dir():
        raise MotionkitError(f"{path} is a folder, not a file.", fix="choose another name.")
    if there and not path.is_file():
        raise MotionkitError(f"{path} is no regular file and cannot be replaced.", fix="choose another name.")
    folder = path.parent
    while parents and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise MotionkitError(f"there is no folder {folder}.", fix="make it, or choose another place.")
    if not os.access(folder, os.W_OK) or (there and not os.access(path, os.W_OK)):
        raise MotionkitError(f"{path} cannot be written: no permission.", fix="choose another place.")
