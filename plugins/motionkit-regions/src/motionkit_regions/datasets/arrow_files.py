"""Rows of arrow files that are not trusted.

The files are memory-mapped by pyarrow, and a row is copied on demand. A file may hold offsets beyond its end, so a
batch is validated before its first row is copied; pyarrow cannot validate a single row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit.documents import open_file
from motionkit.errors import MotionkitError, first_line
from motionkit_regions.datasets.rows import BAD_ROW, UnusableError

_FILE = b"ARROW1"  # two bytes follow, then the same stream as in a file without it
_DEPTH = 4
_VALUES = 1 << 20  # of a column in a row: numbers, texts, lists and tables
_HEADER, _COMPRESSION = 2, 3  # fields of Message and RecordBatch in Arrow's Message.fbs


@dataclass(frozen=True)
class Column:
    """Limits of a column."""

    most: int  # bytes in a row
    lists: bool = True  # whether a row may hold lists; each of their values becomes a Python object


def open_batches(path: Path, columns: Mapping[str, Column]) -> list[Any]:
    """Return the record batches of an arrow stream or file, mapped from the disk, with the wanted columns only.

    Their content is not checked yet, see `check_batch`.

    pyarrow checks neither that a row takes bytes (a column of nulls may have 10^12 rows, a list of nulls 10^9 entries)
    nor how large compressed columns become. Both are refused by their types and headers before they are read, so that
    nothing becomes much larger in memory than it is in the file.
    """
    try:
        with open_file(path) as file:  # a pipe would never end
            size = file.seek(0, 2)
        return _open(path, columns, size)
    except MotionkitError:
        raise
    # A damaged file can raise nearly any exception.
    except Exception as error:
        raise MotionkitError(
            f"{path} is not an arrow file, or a damaged one.", why=first_line(error)[:200],
            fix="download it again; a stopped download leaves a shorter file.",
        ) from error  # fmt: skip


def _open(path: Path, columns: Mapping[str, Column], size: int) -> list[Any]:
    import pyarrow as pa

    content = pa.memory_map(str(path)).read_buffer() if size else pa.py_buffer(b"")
    if content[: len(_FILE)].to_pybytes() == _FILE:
        content = content[8:]
    schema = pa.ipc.open_stream(content).schema
    names = list(schema.names)
    if missing := [name for name in columns if names.count(name) != 1]:
        raise MotionkitError(
            f"{path} has no column {' or '.join(missing)}.",
            why=f"found were {', '.join(names[:8]) or 'none'}; wanted are {', '.join(columns)}.",
        )
    for name, column in columns.items():
        kind = schema.field(name).type
        if not _plain(kind, _DEPTH, lists=column.lists):
            more = "lists and tables" if column.lists else "a table"
            raise MotionkitError(
                f"the column {name} of {path} holds {str(kind)[:80]}.",
                why=f"it must hold text, bytes or numbers, or {more} of them.",
                fix="docs/region-data.md shows the columns.",
            )
    if any(_is_compressed(message) for message in _messages(content)):
        raise MotionkitError(
            f"{path} is compressed, which is not read here.",
            why="rows are read from the disk one at a time, and a compressed file has to be unpacked into memory.",
            fix="save it without compression, as save_to_disk of datasets does.",
        )
    chosen = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in columns])
    batches = list(pa.ipc.open_stream(content, options=chosen))
    if any(batch.num_rows < 0 for batch in batches) or sum(batch.num_rows for batch in batches) > size:
        raise MotionkitError(f"{path} says that it has more rows than bytes.", fix="download it again.")
    return batches


def check_batch(batch: Any) -> str:
    """Return the fault of a batch or a column, such as offsets beyond its end; empty if there is none."""
    try:
        batch.validate(full=True)
    # A damaged file can raise nearly any exception.
    except Exception as error:
        return first_line(error)[:80]
    return ""


def row_of(batch: Any, at: int, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return a row of a batch that `check_batch` has passed.

    A bit of the file can become a Python object of 200 bytes, so the values of lists are counted before they are
    copied.
    """
    row: dict[str, Any] = {}
    for name, column in columns.items():
        value = batch.column(name).slice(at, 1)
        if value.nbytes > column.most:
            raise UnusableError(BAD_ROW, f"{name} of {value.nbytes / 1e6:.0f} MB")
        if (count := _values(value)) > _VALUES:
            raise UnusableError(BAD_ROW, f"{name} of {count:,} values")
        try:
            (row[name],) = value.to_pylist()
        except Exception as error:  # a damaged name of a field, for one
            raise UnusableError(BAD_ROW, first_line(error)[:80]) from error
    return row


def may_name_files(column: Any) -> bool:
    """Return whether a column may name picture files: it is sound, and not all values are bytes."""
    import pyarrow.types as is_a

    if not is_a.is_struct(column.type):
        return bool(is_a.is_string(column.type) or is_a.is_large_string(column.type))
    names = [column.type.field(place).name for place in range(column.type.num_fields)]
    if "path" not in names or check_batch(column):
        return False
    return "bytes" not in names or bool(column.field(names.index("bytes")).null_count)


def _values(array: Any) -> int:
    """Return how many Python objects an array becomes."""
    import pyarrow.types as is_a

    if is_a.is_struct(array.type):
        return len(array) + sum(map(_values, array.flatten()))
    if is_a.is_list(array.type) or is_a.is_large_list(array.type) or is_a.is_fixed_size_list(array.type):
        return len(array) + _values(array.flatten())
    return len(array)


def _plain(kind: Any, depth: int, *, lists: bool) -> bool:
    """Return whether each value of a type takes bytes in the file: it is neither null nor a reference."""
    import pyarrow.types as is_a

    if is_a.is_struct(kind):
        fields = [kind.field(place).type for place in range(kind.num_fields)]
        fields = [field for field in fields if not is_a.is_null(field)]  # a null field among others takes no memory
        return depth > 0 and bool(fields) and all(_plain(field, depth - 1, lists=lists) for field in fields)
    if is_a.is_list(kind) or is_a.is_large_list(kind) or (is_a.is_fixed_size_list(kind) and kind.list_size > 0):
        return lists and depth > 0 and _plain(kind.value_type, depth - 1, lists=lists)
    checks = (is_a.is_string, is_a.is_large_string, is_a.is_binary, is_a.is_large_binary, is_a.is_integer)
    return any(check(kind) for check in (*checks, is_a.is_floating, is_a.is_boolean))


def _messages(content: Any) -> Iterator[Any]:
    import pyarrow as pa

    reader = pa.BufferReader(content)
    while True:
        try:
            yield pa.ipc.read_message(reader)
        except EOFError:
            return


def _is_compressed(message: Any) -> bool:
    """Return whether the columns of a message are compressed: its record batch has a compression table."""
    if message.type != "record batch":
        return False
    data = message.metadata.to_pybytes()
    batch = _field(data, int(struct.unpack_from("<I", data)[0]), _HEADER)
    return bool(_field(data, batch, _COMPRESSION))


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a flatbuffer's table that is a field of another one; 0 if it is absent."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", data, fields)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, fields + place)[0]
    return table + offset + int(struct.unpack_from("<I", data, table + offset)[0]) if offset else 0
