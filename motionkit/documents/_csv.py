"""Reads CSV files row by row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from motionkit.documents._text import not_text, open_file, unreadable
from motionkit.errors import MotionkitError

LIMIT = 256 << 20
"""Bytes of a file; rows are read one by one."""

_COLUMNS = 1000
_ROW = 4 << 20
"""Letters of a row with all its cells."""


def read_csv(path: str | Path, *, limit: int = LIMIT) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file as tables, by the names of its first line.

    Cells that a row lacks are empty; cells beyond the last name and empty lines are left out. A cell may have 131,072
    letters, a row 4 million.

    Args:
        path: The file, UTF-8 (a byte order mark is fine).
        limit: Bytes beyond which it is not read.
    """
    path = Path(path)
    try:
        with io.TextIOWrapper(open_file(path, limit), encoding="utf-8-sig", newline="") as file:
            lines = _Lines(file)
            rows = csv.reader(lines)
            names = next(rows, [])
            if len(names) > _COLUMNS:
                raise MotionkitError(f"{path} has {len(names)} columns; at most {_COLUMNS} are read.")
            for row in rows:
                lines.taken = 0
                if row:
                    yield {name: row[index] if index < len(row) else "" for index, name in enumerate(names)}
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise not_text(path, error) from error
    except csv.Error as error:
        raise MotionkitError(f"{path} is not a CSV file: {error}.") from error


class _Lines:
    """The lines of a file, as long as those of one row (a cell in quotes may hold many) stay small.

    Attributes:
        taken: Letters taken of the current row.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.taken = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(_ROW)
        self.taken += len(line)
        if not line:
            raise StopIteration
        if self.taken >= _ROW:
            raise csv.Error(f"a row has more than {_ROW} letters")
        return line
