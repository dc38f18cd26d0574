"""Locks in a study folder: which process works in it and lives, and who takes the next trial."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.runs import hold
from motionkit.tuning.plan import WORKERS


@contextmanager
def present(folder: Path) -> Iterator[str]:
    """Hold a lock that shows other processes that this one is alive; yields its name."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    place = folder / WORKERS / name
    place.mkdir(parents=True)
    lock = hold(place)
    try:
        yield name
    finally:
        lock.close()
        shutil.rmtree(place, ignore_errors=True)


def is_held(folder: Path) -> bool:
    """Whether another process holds a folder."""
    try:
        hold(folder).close()
    except MotionkitError:
        return True
    return False


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process of this folder at a time take trials or put them back, so that none is taken beyond the total."""
    from filelock import FileLock

    (folder / WORKERS).mkdir(exist_ok=True)
    with FileLock(str(folder / WORKERS / "ask.lock")):
        yield
