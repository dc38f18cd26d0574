"""The run folder: its name, its making, what may be replaced, and who holds it."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from pathlib import Path
from typing import IO, Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs._atomic import TEMPORARY

KIND = "motionkit-run"
RECORD = "run.json"
_LOCK = ".lock"
_OWN = ("config.json", "metrics.jsonl", "log.txt", "checkpoints", "trackers", "report.html", "policy", "tmr")


def folder_of(command: str, root: str | Path, out: str | Path | None, name: str | None) -> Path:
    """Return the folder of a new run: `out` itself, else ``root/<command>/<name or time-id>``."""
    if out is not None and name is not None:
        raise MotionkitError("--out and --name were both given.", why="each names the run folder.", fix="keep one")
    if out is not None:
        return Path(out)
    stem = name or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    return Path(root) / command.replace(" ", "-").replace(".", "-") / stem


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the content of a run folder's run.json, or None when the folder is no run of motionkit."""
    try:
        record: dict[str, Any] = read_json(folder / RECORD, dict)
    except MotionkitError:
        return None
    return record if record.get("kind") == KIND else None


def claim_new(folder: Path, *, overwrite: bool) -> None:
    """Make the folder of a new run, or empty an old run's folder when `overwrite` says so.

    Only what motionkit itself writes is ever deleted; other files in an old run's folder stay.

    Raises:
        MotionkitError: The folder exists and may not be replaced, or cannot be made.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise MotionkitError(f"{folder} is a file.", why="the run needs a folder.", fix="choose another --out")
        if folder.is_dir() and any(
            path.name != _LOCK and not path.name.startswith(TEMPORARY) for path in folder.iterdir()
        ):
            _refuse_or_clear(folder, overwrite)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MotionkitError(
            f"cannot make the run folder {folder}.", why=str(error), fix="choose another place with --out DIR"
        ) from error


def _refuse_or_clear(folder: Path, overwrite: bool) -> None:
    record = read_record(folder)
    if record is None:
        raise MotionkitError(
            f"{folder} exists and is not a motionkit run.",
            why="nothing in it will be touched, with or without --overwrite.",
            fix="choose another place with --out DIR or --name NAME",
        )
    if not overwrite:
        raise MotionkitError(
            f"{folder} already holds a run ({record.get('command')}, {record.get('status')}).",
            why="a run never mixes with an older one.",
            fix=f"--resume {folder} continues it, --overwrite replaces it, --name NAME makes another",
        )
    with hold(folder):
        # Moved aside first, run.json last: a kill in between leaves something that can be overwritten again.
        aside = folder / f"{TEMPORARY}replaced-{os.getpid()}"
        aside.mkdir()
        # The record is a file that anybody may have edited: only plain names in the folder itself count.
        noted = [name for name in record.get("artifacts", []) if Path(str(name)).name == name and name != ".."]
        for name in dict.fromkeys([*_OWN, *noted, RECORD]):
            if (folder / name).exists():
                (folder / name).rename(aside / name)
        sweep(folder)


def sweep(folder: Path) -> None:
    """Delete what a killed process left half-written in `folder`."""
    for path in folder.glob(f"{TEMPORARY}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def hold(folder: Path) -> IO[str]:
    """Take the folder for this process until the returned file is closed; the system lets go when a process dies.

    Raises:
        MotionkitError: Another process is working in the folder.
    """
    file = (folder / _LOCK).open("a+", encoding="utf-8")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise MotionkitError(
            f"{folder} is in use by another process.",
            why="two processes would mix their results.",
            fix="wait or stop it",
        ) from None
    except (ImportError, OSError):
        pass  # no such locks on this platform or network disk: carry on without
    return file


def is_held(folder: Path) -> bool:
    """Return whether some process is working in the folder now."""
    if not (folder / _LOCK).exists():
        return False
    try:
        hold(folder).close()
    except MotionkitError:
        return True
    return False
