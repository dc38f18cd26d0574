"""The folder of a run: its path, the names in it that are motionkit's, and the lock that one process holds on it."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import IO

from motionkit.errors import MotionkitError
from motionkit.runs._record import NONBLOCK, RECORD, RunRecord, read_record
from motionkit.runs.atomic import is_temporary, sweep, temporary
from motionkit.runs.forms import model_forms

LOCK = ".lock"
"""Name of the lock file."""

PAGE = "report.html"
"""Name of a run's page in its folder."""

TAGS = "tags.json"
"""File of a run's tags, a list of words."""

_OWN = ("config.json", "metrics.jsonl", "log.txt", "checkpoints", "trackers", PAGE, TAGS)
"""Names in every run folder, besides run.json."""


def folder_of(command: str, root: str | Path, out: str | Path | None, name: str | None) -> Path:
    """Return the folder of a new run: `out` itself, else ``root/<command>/<name or time-id>``."""
    if out is not None and name is not None:
        raise MotionkitError("--out and --name were both given.", why="each names the run folder.", fix="keep one")
    if out is not None:
        return Path(out)
    stem = name or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    return Path(root) / folder_name(command) / stem


def folder_name(command: str) -> str:
    """Return the name of the folder of a command's runs: ``pretrain-mdm``."""
    return command.replace(" ", "-").replace(".", "-")


def claim_new(folder: Path, *, overwrite: bool) -> None:
    """Make the folder of a new run, or empty an old run's folder if `overwrite`.

    Only files that motionkit wrote are deleted; other files in an old run's folder stay.
    """
    try:
        if (old := refuse_taken(folder, overwrite=overwrite)) is not None:
            _clear(folder, old)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MotionkitError(
            f"cannot make the run folder {folder}.", why=str(error), fix="choose another place with --out DIR"
        ) from error


def own_names(record: RunRecord | None) -> set[str]:
    """Return the names that motionkit may replace in a run's folder, besides run.json and the lock.

    Args:
        record: The run's record; None if it cannot be read. One that lists nothing is of an older version.
    """
    made = (record and record.artifacts) or [form.artifact for form in model_forms()]
    return {*_OWN, *made} - {RECORD, LOCK}


def refuse_taken(folder: Path, *, overwrite: bool) -> RunRecord | None:
    """Refuse a folder that a new run may not take; return the record of the old run that it would replace."""
    if folder.exists() and not folder.is_dir():
        raise MotionkitError(f"{folder} is a file.", why="the run needs a folder.", fix="choose another --out")
    if not folder.is_dir() or all(path.name == LOCK or is_temporary(path) for path in folder.iterdir()):
        return None
    record = read_record(folder)
    if record is None:
        raise MotionkitError(
            f"{folder} exists and is not a motionkit run.",
            why="nothing in it will be touched, with or without --overwrite.",
            fix="choose another place with --out DIR or --name NAME",
        )
    if not overwrite:
        raise MotionkitError(
            f"{folder} already holds a run ({record.command}, {record.status}).",
            fix=f"--resume {folder} continues it, --overwrite replaces it, --name NAME makes another",
        )
    return record


def _clear(folder: Path, record: RunRecord) -> None:
    with hold(folder):
        # Moved aside first. The old run.json stays until the new one replaces it: after a kill in between, the folder
        # is still a run's and can be overwritten again.
        aside = temporary(folder / RECORD)
        aside.mkdir()
        for name in own_names(record):
            if os.path.lexists(folder / name):
                (folder / name).rename(aside / name)
        sweep(folder)


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
    return os.open(folder / LOCK, flags | getattr(os, "O_NOFOLLOW", 0) | NONBLOCK, 0o666)


def _lock(descriptor: int) -> bool:
    """Try to lock an open file; True also if a network disk has no locks."""
    from filelock import lock_descriptor

    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError:
        return True
