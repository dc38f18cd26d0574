"""Locks a folder for one process, and checks that the locked folder is still in its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from motionkit.errors import MotionkitError

LOCK = ".lock"
"""Name of the lock file."""


def hold(folder: Path) -> IO[str]:
    """Lock the folder for this process until the returned file is closed; the system unlocks it when a process dies.

    Raises:
        MotionkitError: Another process holds the folder.
        OSError: The lock cannot be opened for writing.
    """
    file = os.fdopen(_open(folder, os.O_RDWR | os.O_CREAT), "w", encoding="utf-8")
    if not _lock(file.fileno()):
        file.close()
        raise MotionkitError(
            f"{folder} is in use by another process.",
            why="two processes would mix their results.",
            fix="wait or stop it",
        )
    return file


def is_held(folder: Path) -> bool:
    """Return whether a process holds the folder now; the folder need not be writable."""
    # NFS grants an exclusive lock only to a file that is open for writing.
    flags = os.O_RDWR if os.access(folder / LOCK, os.W_OK) else os.O_RDONLY
    try:
        descriptor = _open(folder, flags)
    except OSError:
        return False
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def still_holds(lock: IO[str], folder: Path) -> bool:
    """Return whether `lock`, from `hold`, is still the lock file in `folder`; False after the folder was emptied."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat())
    except OSError:
        return False


def _open(folder: Path, flags: int) -> int:
    # A link is refused and a pipe does not block: the folder may come from another user.
    return os.open(folder / LOCK, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def _lock(descriptor: int) -> bool:
    """Try to lock an open file; True also where a network disk has no locks."""
    from filelock import lock_descriptor

    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError:
        return True
