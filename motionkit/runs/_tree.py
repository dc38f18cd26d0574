"""Moves, replaces and removes files inside a folder, never through a link that leads out of it."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path, PurePosixPath, PureWindowsPath

from motionkit.runs._atomic import temporary


def is_inside(name: object) -> bool:
    """Whether a value read from a file is a relative path that stays inside its folder."""
    if not isinstance(name, str) or not name or "\0" in name:
        return False
    path = PureWindowsPath(name)  # handles both kinds of slashes, and drives
    return not path.anchor and ".." not in path.parts


def is_obstacle(folder: Path) -> bool:
    """Whether a path that must be a folder is a file, or a link that leads elsewhere."""
    return folder.is_symlink() or (folder.exists() and not folder.is_dir())


def folders_of(name: str) -> list[PurePosixPath]:
    """Return the folders that a path inside a folder goes through, the innermost first."""
    return list(PurePosixPath(name).parents)[:-1]


def move_file(source: Path, target: Path) -> None:
    """Replace `target` by `source` atomically, also across file systems."""
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        aside = temporary(target)
        shutil.copyfile(source, aside)
        aside.replace(target)


def remove_file(folder: Path, name: str) -> None:
    """Delete ``folder/name`` and the folders that this leaves empty, except `folder`."""
    parents = [folder / parent for parent in folders_of(name)]
    if (folder / name).is_dir() or any(map(is_obstacle, parents)):
        return
    (folder / name).unlink(missing_ok=True)
    for parent in parents:
        if not parent.is_dir() or any(parent.iterdir()):
            return
        parent.rmdir()
