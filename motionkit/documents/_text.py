"""Opens files that users name, and reads text files of bounded size."""

from __future__ import annotations

import io
import stat
from datetime import date, time
from pathlib import Path
from typing import TypeVar

from motionkit.errors import MotionkitError

# Checks a parsed document: plain values, text keys, numbers of at most 64 bits, at most 100 levels.


T = TypeVar("T")

DEPTH = 100
"""Levels of tables and lists; recursive Python code fails at about 300."""

_LARGEST = 2**64
_WORDS = {dict: "a table (key: value)", list: "a list", str: "text", bool: "true or false", int: "a number"}
_WORDS |= {float: "a number", type(None): "nothing"}


def require_kind(document: object, kind: type[T], origin: str) -> T:
    """Return `document` if it is of the type `kind`."""
    if isinstance(document, kind):
        return document
    found = _WORDS.get(type(document), type(document).__name__)
    raise MotionkitError(f"{origin} does not hold {_WORDS.get(kind, kind.__name__)} at its top, but {found}.")


def check_values(document: object, origin: str, *, surrogates: bool = False) -> None:
    """Check every value and key.

    Args:
        document: What a parser returned.
        origin: Where it comes from, for messages.
        surrogates: Whether text may hold lone surrogates, which stand for file names that are no UTF-8.
    """
    level: list[object] = [document]
    for _ in range(DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                for key in value:
                    _check_key(key, origin, surrogates)
                below += value.values()
            elif isinstance(value, list):
                below += value
            else:
                _check_leaf(value, origin, surrogates)
        if not below:
            return
        level = below
    raise too_deep(origin)


def too_deep(origin: str) -> MotionkitError:
    """Return the error for a document that is nested too deep."""
    return MotionkitError(f"{origin} is nested too deep to be read.", why=f"at most {DEPTH} levels are.")


def _check_key(key: object, origin: str, surrogates: bool) -> None:
    if not isinstance(key, str):
        raise MotionkitError(
            f"{origin} has a key that is no text: {str(key)[:40]}.",
            why="YAML reads numbers, dates, and words like on, yes, off and no, as values.",
            fix='put the key in quotes, as in "on": 1.',
        )
    _check_leaf(key, origin, surrogates)


def _check_leaf(value: object, origin: str, surrogates: bool) -> None:
    if isinstance(value, str):
        if not surrogates and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise MotionkitError(
                    f"{origin} holds text that is no Unicode: {value[error.start]!a}.",
                    why="half of a surrogate pair stands alone.",
                ) from error
    elif isinstance(value, int):
        if not -_LARGEST < value < _LARGEST:
            raise MotionkitError(f"{origin} holds a whole number of more than 64 bits.")
    elif not isinstance(value, (float, date, time, type(None))):
        raise MotionkitError(f"{origin} holds a value of type {type(value).__name__}, which no document here has.")


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
