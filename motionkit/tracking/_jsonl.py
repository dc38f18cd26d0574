"""metrics.jsonl: one line of finite JSON per logged step."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_jsonl

_END = 1 << 18
"""Bytes from the end of a metrics file in which its last line is looked for."""


def finite(value: object) -> object:
    """Return `value` with NaN and infinities turned into None, recursively, because JSON cannot represent them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class JsonlWriter:
    """Appends lines to a file; an incomplete line is removed again.

    Args:
        path: The file; made when absent.

    Example:
        >>> writer = JsonlWriter(Path("metrics.jsonl"))
        >>> writer.write({"step": 1, "reward/mean": 0.5, "kl/nats": float("nan")})
        >>> writer.close()
        >>> list(read_metrics(Path("metrics.jsonl")))
        [{'step': 1, 'reward/mean': 0.5, 'kl/nats': None}]
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
        """Flush to the disk and close; errors do not affect lines that were written before."""
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            finally:
                self._file.close()


class _Line(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    step: int = Field(ge=0)
    seconds: float | None = Field(None, ge=0)


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a metrics file: ``step`` and numbers, or None where a number was not finite.

    Lines that no run can have written are skipped, also an incomplete last line of a killed process.
    """
    yield from _valid(read_jsonl(path))


def last_metrics(path: Path) -> dict[str, Any]:
    """Return the last whole line of a metrics file, from the end of the file alone; empty where there is none."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _END))
        lines = file.read().splitlines(keepends=True)
    found: dict[str, Any] = {}
    for line in _valid(parsed for text in reversed(lines) if (parsed := _object(text))):
        found = line
        break
    return found


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text) if text.endswith(b"\n") else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _valid(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            _Line.model_validate(line)
        except ValidationError:
            continue
        yield line
