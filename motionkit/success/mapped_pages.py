"""The memory of mapped files: pages that were read are released when they are many."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

_ENOUGH = 8 * 2**20
"""Bytes of mapped files at which `MappedPages` releases them."""

_AROUND = 64 * 2**10
"""Bytes of a mapped file that a system reads at once."""


class MappedPages:
    """Releases the pages of mapped files when they are many; the files stay in the system's cache.

    Pages that were read count as the process's memory until they are released: without it a process that reads a large
    file at random finally holds all of it, and may exceed a limit on its memory, such as a container's.

    Args:
        enough: Bytes at which they are released.
    """

    def __init__(self, enough: int = _ENOUGH) -> None:
        self._enough = enough
        self._files: dict[int, np.memmap[Any, Any]] = {}
        self._bytes = 0

    def touched(self, file: np.memmap[Any, Any], rows: int) -> None:
        """Note that rows of a file were read or written."""
        self._files[id(file)] = file
        self._bytes += rows * max(_AROUND, file[:1].nbytes)
        if self._bytes >= self._enough:
            self.let_go()

    def let_go(self) -> None:
        """Release all pages, if the system supports it."""
        for file in self._files.values():
            mapping = getattr(file, "_mmap", None)
            if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                # The mapping is shared: data written to the file are kept.
                mapping.madvise(mmap.MADV_DONTNEED)
        self._files.clear()
        self._bytes = 0
