"""Sizes of the columns of a parquet file, read from its footer before its data are decoded.

A few bytes can encode any number of equal values, so the size of a file limits nothing. pyarrow gives the number of
values too, but ends the process if some fields of a footer contradict each other (26.0.1,
``RowGroupMetaData.column``).

Source: parquet-format 2.11 (``parquet.thrift``; a file ends with the footer, its length in 4 bytes and ``PAR1``) and
Apache Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

_MAGIC = b"PAR1"
_LARGEST = 64 << 20  # bytes of a footer
_DEEPEST = 16
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_ROW_GROUPS, _COLUMNS, _META = 4, 1, 3  # fields of FileMetaData, RowGroup, ColumnChunk
_PATH, _VALUES, _UNCOMPRESSED = 3, 5, 6  # of ColumnMetaData


def column_sizes(path: Path) -> list[tuple[str, int, int]]:
    """Return each column of each row group: its dotted path, its values, and its bytes when decompressed.

    Raises:
        ValueError: The file has no footer, or it is damaged.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            raise ValueError("it is too short for a parquet file")
        file.seek(size - 8)
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic != _MAGIC or length > min(size - 12, _LARGEST):
            raise ValueError("it does not end as a parquet file does")
        file.seek(size - 8 - length)
        footer = _Footer(file.read(length))
    sizes = []
    for group in _lists(footer.structure().get(_ROW_GROUPS)):
        for column in _lists(_structure(group).get(_COLUMNS)):
            meta = _structure(_structure(column).get(_META))
            names, values, plain = meta.get(_PATH), meta.get(_VALUES), meta.get(_UNCOMPRESSED)
            if not isinstance(values, int) or not isinstance(plain, int):
                raise ValueError("its footer does not say what a column holds")
            words = [name.decode("utf-8", "replace") for name in _lists(names) if isinstance(name, bytes)]
            sizes.append((".".join(words), values, plain))
    return sizes


def _structure(value: Any) -> dict[int, Any]:
    return value if isinstance(value, dict) else {}


def _lists(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _Footer:
    """Values of Thrift's compact protocol: structures as dicts by field number."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place, self._depth = data, 0, 0

    def structure(self) -> dict[int, Any]:
        """Return the structure that begins here."""
        fields: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("its footer is nested too deep")
        value = self._read(kind)
        self._depth -= 1
        return value

    def _read(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # a truth value in a list is a byte
            return self._byte()
        if kind < _DOUBLE:
            return self._signed()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._number())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._number()
            return [self._value(head & 15) for _ in range(self._fits(count))]
        if kind == _MAP:
            count = self._fits(self._number())
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(count)]
        if kind == _STRUCT:
            return self.structure()
        raise ValueError("its footer is damaged")

    def _fits(self, count: int) -> int:
        """Return a number of values, each of which takes a byte or more."""
        if count > len(self._data) - self._place:
            raise ValueError("its footer is damaged")
        return count

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        data = self._data[self._place : self._place + count]
        if len(data) < count:
            raise ValueError("its footer ends too early")
        self._place += count
        return data

    def _number(self) -> int:
        """Return an unsigned number: seven bits in a byte, the lowest first."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("its footer is damaged")

    def _signed(self) -> int:
        """Return a signed number, in zigzag."""
        number = self._number()
        return (number >> 1) ^ -(number & 1)
