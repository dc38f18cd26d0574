"""Files that are either the old or the new version, whenever the process dies."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from motionkit.errors import MotionkitError

TEMPORARY = ".tmp-"
"""Prefix of whatever is still being written; safe to delete when no process works in the folder."""


@contextmanager
def disk_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn an operating-system error while writing into one clear `MotionkitError` with exit code 1.

    The safetensors writer wraps the system's error in a class of its own, so that one is recognised by its text.
    """
    try:
        yield
    except OSError as error:
        raise _explained(doing, path, error.errno, str(error)) from error
    except Exception as error:
        if type(error).__name__ != "SafetensorError":
            raise
        text = str(error)
        full = errno.ENOSPC if "No space left" in text else errno.EFBIG if "File too large" in text else None
        raise _explained(doing, path, full, text) from error


def _explained(doing: str, path: Path, number: int | None, text: str) -> MotionkitError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        why, fix = "the disk or the quota is full.", "free some space, then continue with --resume"
    elif number == errno.EFBIG:
        why, fix = "the file would be larger than the limit of this process.", "raise `ulimit -f`, then --resume"
    else:
        why, fix = text, "check the disk and its permissions, then continue with --resume"
    return MotionkitError(f"cannot {doing}: {path}", why=f"{why} What was saved before is intact.", fix=fix, code=1)


def temporary(path: Path, suffix: str = "") -> Path:
    """Return a place beside a file to write it first; its name is short however long the file's is."""
    return path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}{suffix}")


def sync_file(path: Path) -> None:
    """Ask the system to put a file's bytes on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make renames inside a folder durable; a no-op where folders cannot be opened (Windows)."""
    if os.name == "posix":
        sync_file(path)


def write_bytes(path: Path, data: bytes, *, like: Path | None = None) -> None:
    """Write a file aside, flush it to the disk and rename it into place.

    A file that was there keeps its permissions: who made it private wants what takes its place to be private too.

    Args:
        path: The file.
        data: Its new contents.
        like: A file whose permissions it gets; None takes those of `path` itself. One that is missing has none.

    Raises:
        OSError: The disk is full or refuses; the old file, if there was one, is as before.
    """
    aside = temporary(path)
    try:
        with aside.open("wb") as file:
            with suppress(FileNotFoundError):
                # Before the first byte is written, so that nobody can read it in between.
                aside.chmod(stat.S_IMODE((like or path).stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_json(path: Path, document: object) -> None:
    """Write a JSON file as `write_text` does; NaN and infinity are refused (ValueError)."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
