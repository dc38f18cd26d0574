"""Memory of files that are mapped: what was read of them counts as the process's own until it is let go."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

_ENOUGH = 8 * 2**20
_AROUND = 64 * 2**10  # bytes that a system maps in at a time


class MappedPages:
    """Lets the pages of mapped files go before they are many; the files stay in the system's cache.

    Without it a process that reads a large file at random comes to hold all of it, and a limit on its memory, such as a
    container's, is reached with the data.

    Args:
        enough: Bytes from which they go.
    """

    def __init__(self, enough: int = _ENOUGH) -> None:
        self._enough = enough
        self._files: dict[int, np.memmap[Any, Any]] = {}
        self._bytes = 0

    def touched(self, file: np.memmap[Any, Any], rows: int) -> None:
        """Say that rows of a file were read or written.

        Args:
            file: The map, opened by numpy.
            rows: How many of its first axis.
        """
        self._files[id(file)] = file
        self._bytes += rows * max(_AROUND, file[:1].nbytes)
        if self._bytes >= self._enough:
            self.let_go()

    def let_go(self) -> None:
        """Let all pages go, where the system can."""
        for file in self._files.values():
            mapping = getattr(file, "_mmap", None)
            if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                # The map is of a file and shared: what was written to it is kept.
                mapping.madvise(mmap.MADV_DONTNEED)
        self._files.clear()
        self._bytes = 0
