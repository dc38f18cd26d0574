"""Reads a pickle: first through the gate, then with Python's unpickler, limited to the names of the gate."""

from __future__ import annotations

import io
import mmap
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from motionkit.errors import MotionkitError
from motionkit.weights._calls import NAMES, refusal
from motionkit.weights._gate import Gate
from motionkit.weights._walk import walk


def read_pickle(source: IO[bytes] | bytes, origin: str) -> Any:
    """Read a pickle of numpy arrays and plain containers.

    Args:
        source: The pickle, or an open file in which it is next.
        origin: Name of the file for messages.

    Raises:
        MotionkitError: It holds other objects or inconsistent sizes; no object was built.
        Exception: It is damaged.
    """
    if isinstance(source, bytes):
        walk(Gate(memoryview(source), origin))
        return unpickle(in_memory(source), origin)
    start = source.tell()
    walk(Gate(mapped(source), origin, start))
    return unpickle(source, origin)


def unpickle(file: IO[bytes], origin: str, storage: Callable[[Any], Any] | None = None) -> Any:
    """Build what the next pickle in a file describes, which has been through the gate.

    Args:
        file: The file.
        origin: Its name for messages.
        storage: Returns what a reference to bytes outside the pickle stands for.
    """
    return _Unpickler(file, origin, storage).load()


def mapped(file: IO[bytes]) -> memoryview:
    """Return the bytes of a file on disk; mapped, so that only the used pages are read."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def in_memory(data: bytes) -> io.BufferedReader:
    """Return bytes as a file that the unpickler reads in blocks."""
    return io.BufferedReader(io.BytesIO(data))


class _Unpickler(pickle.Unpickler):
    """Finds the names of the gate only, and imports no module."""

    def __init__(self, file: IO[bytes], origin: str, storage: Callable[[Any], Any] | None) -> None:
        super().__init__(file, encoding="latin1")
        self._origin = origin
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if (full := f"{module}.{name}") not in NAMES:
            raise refusal(full, self._origin)
        return NAMES[full]

    def persistent_load(self, reference: Any) -> Any:
        if self._storage is None:
            raise ValueError("it refers to data outside itself.")
        return self._storage(reference)


# Opens zip archives with a bounded list of members.


_DIRECTORY = 8 << 20
"""Most bytes of the list of members, enough for about 80 000."""


def open_zip(file: IO[bytes], path: Path) -> zipfile.ZipFile:
    """Open an archive; no member is read."""
    try:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        size = end[zipfile._ECD_SIZE] if end else 0  # type: ignore[attr-defined]
        if size <= _DIRECTORY:
            return zipfile.ZipFile(file)
    # For damaged lists zipfile also raises NotImplementedError, UnicodeDecodeError and struct.error.
    except Exception as error:
        raise MotionkitError(
            f"{path} is damaged or cut short.",
            why=str(error) or type(error).__name__,
            fix="copy or download it again; a stopped download leaves a shorter file.",
        ) from error
    raise MotionkitError(
        f"{path} was not opened: its list of members takes {size / 1e6:.0f} MB.",
        why=f"no file of arrays or weights has more than {_DIRECTORY >> 20} MB of it.",
    )
