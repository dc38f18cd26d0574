"""Opens arrow files of strangers: nothing in them is much larger in memory than it is in the file.

pyarrow checks neither that a row takes room (a column of nothing may have 10^12 rows, a list of nothing 10^9 entries)
nor how large compressed columns become. Columns that take no room and compressed ones are therefore refused by their
types and headers, before they are read. A bit of the file can become a table of Python, of 200 bytes: values of lists
are counted before they are copied.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit.datasets.regions._rows import BAD_ROW, UnusableError
from motionkit.documents import open_file
from motionkit.errors import MotionkitError

_FILE = b"ARROW1"  # two bytes follow, then the same stream as in a file without it
_DEPTH = 4
_VALUES = 1 << 20  # of a column in a row: numbers, texts, lists and tables
_HEADER, _COMPRESSION = 2, 3  # fields of Message and RecordBatch in Arrow's Message.fbs


@dataclass(frozen=True)
class Column:
    """What a column may hold.

    Attributes:
        most: Bytes in a row.
        lists: Whether a row may hold lists; each of their numbers becomes an object of Python.
    """

    most: int
    lists: bool = True


def open_batches(path: Path, wanted: Mapping[str, Column]) -> list[Any]:
    """Return the record batches of an arrow stream or file, mapped from the disk, with the wanted columns only.

    Their content is not checked yet, see `check_batch`.

    Args:
        path: The file.
        wanted: Columns by their names.

    Raises:
        MotionkitError: It is not such a file, is damaged or compressed, has not these columns, or has columns of types
            that no row of text, bytes and numbers needs.
    """
    try:
        with open_file(path) as file:  # a pipe would never end
            size = file.seek(0, 2)
        return _open(path, wanted, size)
    except MotionkitError:
        raise
    # A damaged file can raise nearly any exception.
    except Exception as error:
        raise MotionkitError(
            f"{path} is not an arrow file, or a damaged one.", why=_first_line(error)[:200],
            fix="download it again; a stopped download leaves a shorter file.",
        ) from error  # fmt: skip


def _open(path: Path, wanted: Mapping[str, Column], size: int) -> list[Any]:
    import pyarrow as pa

    content = pa.memory_map(str(path)).read_buffer() if size else pa.py_buffer(b"")
    if content[: len(_FILE)].to_pybytes() == _FILE:
        content = content[8:]
    schema = pa.ipc.open_stream(content).schema
    found = list(schema.names)
    if missing := [name for name in wanted if found.count(name) != 1]:
        raise MotionkitError(
            f"{path} has no column {' or '.join(missing)}.",
            why=f"found were {', '.join(found[:8]) or 'none'}; wanted are {', '.join(wanted)}.",
        )
    for name, column in wanted.items():
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
    chosen = pa.ipc.IpcReadOptions(included_fields=[found.index(name) for name in wanted])
    batches = list(pa.ipc.open_stream(content, options=chosen))
    if any(batch.num_rows < 0 for batch in batches) or sum(batch.num_rows for batch in batches) > size:
        raise MotionkitError(f"{path} says that it has more rows than bytes.", fix="download it again.")
    return batches


def check_batch(batch: Any) -> str:
    """Return what is wrong with a batch or a column, such as offsets that lead out of it; empty when nothing is."""
    try:
        batch.validate(full=True)
    # A damaged file can raise nearly any exception.
    except Exception as error:
        return _first_line(error)[:80]
    return ""


def row_of(batch: Any, at: int, wanted: Mapping[str, Column]) -> dict[str, Any]:
    """Return a row of a batch in which `check_batch` found nothing.

    Raises:
        UnusableError: The row is longer than a column may be, or damaged.
    """
    found: dict[str, Any] = {}
    for name, column in wanted.items():
        value = batch.column(name).slice(at, 1)
        if value.nbytes > column.most:
            raise UnusableError(BAD_ROW, f"{name} of {value.nbytes / 1e6:.0f} MB")
        if (count := _values(value)) > _VALUES:
            raise UnusableError(BAD_ROW, f"{name} of {count:,} values")
        try:
            (found[name],) = value.to_pylist()
        except Exception as error:  # a damaged name of a field, for one
            raise UnusableError(BAD_ROW, _first_line(error)[:80]) from error
    return found


def may_name_files(column: Any) -> bool:
    """Return whether some pictures of a column may lie in files of their own: it is sound, and not all are bytes."""
    import pyarrow.types as is_a

    if not is_a.is_struct(column.type):
        return bool(is_a.is_string(column.type) or is_a.is_large_string(column.type))
    names = [column.type.field(place).name for place in range(column.type.num_fields)]
    if "path" not in names or check_batch(column):
        return False
    return "bytes" not in names or bool(column.field(names.index("bytes")).null_count)


def _values(array: Any) -> int:
    """Return how many objects of Python an array becomes."""
    import pyarrow.types as is_a

    if is_a.is_struct(array.type):
        return len(array) + sum(map(_values, array.flatten()))
    if is_a.is_list(array.type) or is_a.is_large_list(array.type) or is_a.is_fixed_size_list(array.type):
        return len(array) + _values(array.flatten())
    return len(array)


def _plain(kind: Any, depth: int, *, lists: bool) -> bool:
    """Return whether each value of a type takes room in the file: it is no null, and refers to no other."""
    import pyarrow.types as is_a

    if is_a.is_struct(kind):
        fields = [kind.field(place).type for place in range(kind.num_fields)]
        fields = [one for one in fields if not is_a.is_null(one)]  # beside others it adds nothing
        return depth > 0 and bool(fields) and all(_plain(one, depth - 1, lists=lists) for one in fields)
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
    """Return whether the columns of a message are compressed: its record batch has a table that says how."""
    if message.type != "record batch":
        return False
    data = message.metadata.to_pybytes()
    batch = _field(data, int(struct.unpack_from("<I", data)[0]), _HEADER)
    return bool(_field(data, batch, _COMPRESSION))


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a flatbuffer's table that is a field of another one; 0 when it is not there."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", data, fields)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, fields + place)[0]
    return table + offset + int(struct.unpack_from("<I", data, table + offset)[0]) if offset else 0


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
