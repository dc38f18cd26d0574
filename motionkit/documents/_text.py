"""Opens files that users name, and reads text files of bounded size."""

from __future__ import annotations

import io
import stat
from pathlib import Path

from motionkit.errors import MotionkitError

LIMIT = 16 << 20
"""Default limit of a document in bytes."""


def read_text(path: str | Path, *, limit: int = LIMIT, mark: bool = False) -> str:
    """Read a UTF-8 text file.

    Args:
        path: The file; devices and pipes are refused.
        limit: Bytes beyond which a file is not read.
        mark: Whether a byte order mark stays in the text.

    Raises:
        MotionkitError: The file is missing, no plain file, too large or no UTF-8.
    """
    path = Path(path)
    try:
        with open_file(path, limit) as file:
            data = file.read(min(limit, path.stat().st_size) + 1)  # Python sets aside as much as it is asked for
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > limit:
        raise _too_large(path, len(data), limit)
    try:
        return data.decode("utf-8" if mark else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_text(path, error) from error


def open_file(path: str | Path, limit: int | None = None) -> io.BufferedReader | io.BytesIO:
    """Open a plain file that a user or another file names, for reading bytes.

    Args:
        path: The file; pipes and devices, which may block for ever, are refused before they are opened.
        limit: Bytes beyond which it is refused.

    Raises:
        MotionkitError: It is a folder, a pipe or a device, or too large.
        OSError: The file is missing, or permission is.
    """
    path = Path(path)
    state = path.stat()
    if stat.S_ISDIR(state.st_mode):
        raise MotionkitError(f"{path} is a folder, a file was expected.", fix="give the file itself.")
    if not stat.S_ISREG(state.st_mode):
        raise MotionkitError(f"{path} is no plain file.", why="a pipe or device may never end.", fix="copy it first.")
    if limit is not None and state.st_size > limit:
        raise _too_large(path, state.st_size, limit)
    # Some files of /proc report 0 bytes, and reading them blocks for ever.
    return path.open("rb") if state.st_size else io.BytesIO()


def unreadable(path: Path, error: OSError) -> MotionkitError:
    """Return the error for a file that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return MotionkitError(f"{path} does not exist.", fix="check the path.")
    return MotionkitError(f"{path} cannot be read.", why=error.strerror or str(error))


def not_text(path: Path, error: UnicodeDecodeError) -> MotionkitError:
    """Return the error for a file that is not UTF-8."""
    return MotionkitError(f"{path} is not a text file (UTF-8).", why=f"byte {error.start} is no part of such a text.")


def _too_large(path: Path, size: int, limit: int) -> MotionkitError:
    return MotionkitError(
        f"{path} is too large: {size / 1e6:.0f} MB; at most {limit / 1e6:.0f} MB are read.",
        why="parsed, it would take many times that in memory.",
    )
