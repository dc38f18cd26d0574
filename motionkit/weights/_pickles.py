"""Reading a pickle: through the gate, then with Python's own unpickler, which finds no names but those of the gate."""

from __future__ import annotations

import io
import mmap
import pickle
from collections.abc import Callable
from typing import IO, Any

from motionkit.weights._gate import Gate
from motionkit.weights._names import NAMES, refusal
from motionkit.weights._walk import walk


def read_pickle(source: IO[bytes] | bytes, origin: str) -> Any:
    """Read a pickle of numpy arrays and plain containers.

    Args:
        source: The pickle, or an open file in which it is next.
        origin: Name of the file for messages.

    Raises:
        MotionkitError: It holds anything else, or asks for more than it holds; nothing of it was built then.
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
    """Return the bytes of a file on disk; only those that are looked at are read."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def in_memory(data: bytes) -> io.BufferedReader:
    """Return bytes as a file, of which the unpickler takes more than one at a time."""
    return io.BufferedReader(io.BytesIO(data))


class _Unpickler(pickle.Unpickler):
    """Finds the names of the gate and nothing else: it imports nothing, whatever the gate let through."""

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
