"""Writes files atomically: after a kill a file is either the old or the new version."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath

from motionkit.errors import MotionkitError

TEMPORARY = ".tmp-"
"""Prefix of the names in `is_temporary`."""

_TEMPORARY = re.compile(r"\.tmp-(\d+-[0-9a-f]{8}(\.\w+)?|step-\d{8,}|replaced-\d+)")


@contextmanager
def disk_errors(doing: str, path: Path, *, code: int = 1) -> Iterator[None]:
    """Turn an operating-system error while writing into one clear `MotionkitError` with exit code `code`.

    The safetensors writer wraps the system's error in its own class, which is recognised by its text.
    """
    try:
        yield
    except OSError as error:
        raise _explained(doing, path, error.errno, str(error), code) from error
    except Exception as error:
        if type(error).__name__ != "SafetensorError":
            raise
        text = str(error)
        full = errno.ENOSPC if "No space left" in text else errno.EFBIG if "File too large" in text else None
        raise _explained(doing, path, full, text, code) from error


def _explained(doing: str, path: Path, number: int | None, text: str, code: int) -> MotionkitError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        why, fix = "the disk or the quota is full.", "free some space, then continue with --resume"
    elif number == errno.EFBIG:
        why, fix = "the file would be larger than the limit of this process.", "raise `ulimit -f`, then --resume"
    else:
        why, fix = text, "check the disk and its permissions, then continue with --resume"
    return MotionkitError(f"cannot {doing}: {path}", why=f"{why} What was saved before is intact.", fix=fix, code=code)


def temporary(path: Path, suffix: str = "") -> Path:
    """Return a temporary path beside a file; its name is short, also for a long file name."""
    return path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}{suffix}")


def is_temporary(path: Path) -> bool:
    """Whether a name is that of a temporary file or folder of motionkit."""
    return _TEMPORARY.fullmatch(path.name) is not None


def sweep(folder: Path, *, below: bool = False) -> None:
    """Delete the temporary files that a killed process left in `folder`; the caller must hold its lock.

    Args:
        folder: The folder.
        below: Also delete those in the folders in it, links left out.
    """
    for place in [Path(root) for root, *_ in os.walk(folder)] if below else [folder]:
        for path in filter(is_temporary, place.glob(f"{TEMPORARY}*")):
            remove(path)


def discard(path: Path) -> None:
    """Delete a file or folder, under a temporary name first: a kill in between leaves only what `sweep` deletes."""
    with suppress(OSError):
        remove(path.rename(temporary(path)))


def remove(path: Path) -> None:
    """Delete a file, a link or a folder; errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def sync_file(path: Path) -> None:
    """Flush a file to the disk (fsync)."""
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

    An existing file keeps its permissions, so that a private file stays private.

    Args:
        path: The file.
        data: Its new contents.
        like: A file whose permissions it gets; None takes those of `path` itself. One that is missing has none.
    """
    write_chunks(path, (data,), like=like)


def write_chunks(path: Path, chunks: Iterable[bytes], *, like: Path | None = None) -> None:
    """Write a file piece by piece as `write_bytes` does."""
    aside = temporary(path)
    try:
        with aside.open("wb") as file:
            with suppress(FileNotFoundError):
                # Set before the first byte is written, so that a private file is never readable in between.
                aside.chmod(stat.S_IMODE((like or path).stat().st_mode))
            file.writelines(chunks)
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
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A path that is not valid UTF-8 is written with JSON escapes of its surrogates, and reads back the same.
    write_bytes(path, text.encode(errors="backslashreplace"))


# Moves, replaces and removes files inside a folder, never through a link that leads out of it.


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


# Checks before the work that its result can be written.


def require_writable(path: Path, *, parents: bool = False) -> None:
    """Refuse a path that cannot be written.

    Args:
        path: The file; an existing one will be replaced.
        parents: Whether missing folders will be made.
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
