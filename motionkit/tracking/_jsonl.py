"""metrics.jsonl: one line of finite JSON per logged step."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path


def finite(value: object) -> object:
    """Return `value` with NaN and infinities turned into None, recursively; JSON has no word for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class JsonlWriter:
    """Appends lines to a file; a line that could not be written whole is taken back.

    Args:
        path: The file; made when absent.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, line: Mapping[str, object]) -> None:
        """Append one line.

        Raises:
            OSError: The disk is full; the file then ends with the line before.
        """
        data = json.dumps(finite(line), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        start = os.fstat(self._file.fileno()).st_size
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            os.ftruncate(self._file.fileno(), start)
            raise

    def close(self) -> None:
        """Flush to the disk and close; what was written before stays readable whatever happens here."""
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            finally:
                self._file.close()
