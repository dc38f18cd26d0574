"""What is seen of a file before it is read, for formats with a common ending: looked up once for all of them."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.lib import format as npy

from motionkit.documents import open_file
from motionkit.errors import MotionkitError

_LINE = 1 << 16
"""Bytes of a first line."""


@dataclass(frozen=True)
class Peek:
    """A file, of which only headers are read."""

    path: Path

    @cached_property
    def keys(self) -> frozenset[str] | None:
        """Names of the arrays of an npz file; None if it is damaged."""
        try:
            with open_file(self.path) as file, zipfile.ZipFile(file) as archive:
                return frozenset(name.removesuffix(".npy") for name in archive.namelist())
        # zipfile raises half a dozen kinds of error for a damaged file; the reader names the damage.
        except Exception:
            return None

    @cached_property
    def array(self) -> tuple[tuple[int, ...], Any] | None:
        """Shape and type of the array of an npy file; None if it is damaged."""
        try:
            with open_file(self.path) as file:
                version = npy.read_magic(file)
                header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = header(file)
        # A header is parsed as Python, which raises many kinds of error; the reader names the damage.
        except Exception:
            return None
        return shape, dtype

    @cached_property
    def line(self) -> str | None:
        """The first line of a text, its first 64 KiB at most; None if it cannot be opened."""
        try:
            with open_file(self.path) as file:
                return file.readline(_LINE).decode(errors="replace")
        except (OSError, MotionkitError):
            return None
