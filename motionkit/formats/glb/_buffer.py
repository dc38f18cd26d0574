"""The binary part of a glTF file, and the file around it."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

_COMPONENTS = {"float32": 5126, "uint32": 5125, "uint16": 5123, "uint8": 5121}
_SHAPES = {(): "SCALAR", (2,): "VEC2", (3,): "VEC3", (4,): "VEC4", (4, 4): "MAT4"}
VERTICES, INDICES = 34962, 34963
"""What a buffer view may be for; everything else has no target."""


class Buffer:
    """Arrays laid one after the other, with the accessors that describe them.

    Attributes:
        views: ``bufferViews`` of the document.
        accessors: ``accessors`` of the document.
    """

    def __init__(self) -> None:
        self.views: list[dict[str, Any]] = []
        self.accessors: list[dict[str, Any]] = []
        self._data = bytearray()

    def add(self, values: NDArray[Any], *, target: int = 0, bounds: bool = False, normalized: bool = False) -> int:
        """Append an array ``[count, ...]`` and return its accessor.

        Args:
            values: float32, uint32, uint16 or uint8; scalars, vectors or 4 x 4 matrices (columns first).
            target: `VERTICES`, `INDICES` or 0.
            bounds: Write least and greatest values, which the format wants of positions and of times.
            normalized: Whole numbers stand for 0 to 1.
        """
        view: dict[str, Any] = {"buffer": 0, "byteOffset": len(self._data), "byteLength": values.nbytes}
        if target:
            view["target"] = target
        accessor: dict[str, Any] = {
            "bufferView": len(self.views),
            "componentType": _COMPONENTS[values.dtype.name],
            "count": len(values),
            "type": _SHAPES[values.shape[1:]],
        }
        if normalized:
            accessor["normalized"] = True
        if bounds:
            accessor["min"] = np.atleast_1d(values.min(axis=0)).tolist()
            accessor["max"] = np.atleast_1d(values.max(axis=0)).tolist()
        self._data += np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        self._data += b"\0" * (-len(self._data) % 4)
        self.views.append(view)
        self.accessors.append(accessor)
        return len(self.accessors) - 1

    def pack(self, document: dict[str, Any]) -> bytes:
        """Return the GLB file of a document whose buffer this is."""
        whole = {
            **document,
            "accessors": self.accessors,
            "bufferViews": self.views,
            "buffers": [{"byteLength": len(self._data)}],
        }
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        size = 12 + 8 + len(text) + 8 + len(self._data)
        return b"".join(
            [
                struct.pack("<4sII", b"glTF", 2, size),
                struct.pack("<I4s", len(text), b"JSON"),
                text,
                struct.pack("<I4s", len(self._data), b"BIN\0"),
                bytes(self._data),
            ]
        )
