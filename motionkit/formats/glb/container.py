"""The contents of a glTF file: its JSON document, its buffer, and arrays in that buffer, bounds checked."""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.documents import open_file, parse_json
from motionkit.errors import MotionkitError

Floats = NDArray[np.float64]

MAX_BYTES = 512 * 2**20
"""Largest file; textures of a character take dozens of MB."""

_TYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}

_PACKED = {
    "KHR_draco_mesh_compression": "Draco",
    "EXT_meshopt_compression": "meshopt",
    "KHR_meshopt_compression": "meshopt",
}
"""Compressions; a file that requires one cannot be read without its decoder."""

_ZEROS = 1 << 20
"""Most rows of an accessor without data, which are zeros: nothing else bounds their number."""

_OVERLAP = 16
"""Largest size of all decoded arrays, relative to the file. Bytes become numbers of eight bytes; more means that
thousands of accessors overlap."""

_LEAST_BUDGET = 64 << 20


@dataclass(frozen=True)
class Container:
    """A GLB file, or a glTF file as text whose data are inside."""

    path: Path  # The file, for messages
    document: dict[str, Any]  # The JSON chunk
    binary: bytes  # The BIN chunk and all buffers inside the document, which are buffer 0 then; empty for none
    _arrays: dict[int, Floats] = field(default_factory=dict, repr=False)
    _lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict, repr=False)
    _sizes: list[int] = field(default_factory=lambda: [0], repr=False)  # Bytes of all arrays together

    def error(self, what: str, *, why: str = "", fix: str = "export the file again.") -> MotionkitError:
        """Return an error about the file."""
        return MotionkitError(f"{self.path}: {what}.", why=why, fix=fix)

    def items(self, name: str) -> list[dict[str, Any]]:
        """Return a list of the document's top level, such as ``nodes``; empty if it is absent."""
        if name not in self._lists:
            entries = self.document.get(name, [])
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise self.error(f"its {name} are not a list of tables")
            self._lists[name] = entries
        return self._lists[name]

    def item(self, name: str, index: object) -> dict[str, Any]:
        """Return an entry of such a list."""
        entries = self.items(name)
        return entries[self.index(index, len(entries), name)]

    def index(self, value: object, count: int, name: str) -> int:
        """Return the number of an entry, checked against the count."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
            raise self.error(f"{_short(value)} is not one of its {count} {name}")
        return value

    def indices(self, values: object, count: int, name: str) -> list[int]:
        """Return a list of numbers of entries, checked."""
        if not isinstance(values, list):
            raise self.error(f"{_short(values)} is not a list of {name}")
        return [self.index(value, count, name) for value in values]

    def numbers(self, value: object, count: int, name: str) -> list[float]:
        """Return `count` numbers of a node."""
        if (
            not isinstance(value, list)
            or len(value) != count
            or not all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in value)
        ):
            raise self.error(f"a {name} is {_short(value)}, not {count} numbers")
        floats = [float(part) for part in value]
        if not np.isfinite(floats).all():
            raise self.error(f"a {name} is not finite")
        return floats

    def array(self, index: object, width: int) -> Floats:
        """Return the values of an accessor.

        Args:
            index: Its number.
            width: Values in a row: 1 (scalars), 3, 4, or 16 for matrices.

        Returns:
            ``[count, width]`` float64; normalized integers are divided.
        """
        number = self.index(index, len(self.items("accessors")), "accessors")
        if number not in self._arrays:
            self._arrays[number] = self._decoded(number)
            self._sizes[0] += self._arrays[number].nbytes
            if self._sizes[0] > max(_LEAST_BUDGET, _OVERLAP * len(self.binary)):
                raise self.error("its accessors lie over one another", why="together they are larger than the file.")
        values = self._arrays[number]
        if values.shape[1] != width:
            raise self.error(f"accessor {number} has {values.shape[1]} values in a row, {width} are needed")
        return values

    def _decoded(self, number: int) -> Floats:
        accessor = self.item("accessors", number)
        width = _WIDTHS.get(_text(accessor.get("type")), 0)
        kind = _TYPES.get(_whole(accessor.get("componentType")), "")
        count = _whole(accessor.get("count"))
        if not width or not kind or count < 1:
            raise self.error(f"accessor {number} has a type, a component type or a count that glTF does not have")
        if "bufferView" in accessor:
            plain = self._view(accessor["bufferView"], accessor.get("byteOffset", 0), kind, count, width, number)
        elif count > _ZEROS:
            raise self.error(f"accessor {number} has {count} rows and no data")
        else:
            plain = np.zeros((count, width), np.dtype(kind))
        if "sparse" in accessor:
            plain = self._replaced(plain, accessor["sparse"], kind, number)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            values = plain.astype(np.float64)
        if accessor.get("normalized") is True and plain.dtype.kind in "iu":
            values = np.maximum(values / np.iinfo(plain.dtype).max, -1.0)
        return values

    def _view(self, index: object, offset: object, kind: str, count: int, width: int, number: int) -> NDArray[Any]:
        """Return rows of a buffer view as they are stored."""
        view = self.item("bufferViews", index)
        buffer = self.item("buffers", view.get("buffer"))
        if view["buffer"] != 0 or "uri" in buffer:
            beside = buffer.get("uri")
            raise self.error(
                f"its data are in another file{f' ({_short(beside)})' if isinstance(beside, str) else ''}",
                why="what is read here holds everything itself.",
                fix="export it as GLB, one .glb file.",
            )
        dtype = np.dtype(kind)
        size = dtype.itemsize * width
        start, length = _whole(view.get("byteOffset", 0)), _whole(view.get("byteLength"))
        inside, stride = _whole(offset), _whole(view.get("byteStride", size))
        if min(start, length, inside) < 0 or start + length > len(self.binary):
            raise self.error(
                f"buffer view {index} ends beyond the file's {len(self.binary)} bytes of data",
                fix="the file is cut short or damaged: export it again.",
            )
        if stride < size or inside + stride * (count - 1) + size > length:
            raise self.error(
                f"accessor {number} reads beyond its buffer view of {length} bytes",
                fix="the file is cut short or damaged: export it again.",
            )
        strides = (stride, dtype.itemsize)
        return np.ndarray((count, width), dtype, self.binary, offset=start + inside, strides=strides)

    def _replaced(self, plain: NDArray[Any], sparse: object, kind: str, number: int) -> NDArray[Any]:
        """Return the rows with those that a sparse accessor replaces."""
        if not isinstance(sparse, dict):
            raise self.error(f"accessor {number} is sparse in a way that glTF does not have")
        indices, replacements = sparse.get("indices"), sparse.get("values")
        count = _whole(sparse.get("count"))
        if not isinstance(indices, dict) or not isinstance(replacements, dict) or not 0 < count <= len(plain):
            raise self.error(f"accessor {number} is sparse in a way that glTF does not have")
        index_kind = _TYPES.get(_whole(indices.get("componentType")), "")
        if index_kind not in ("<u1", "<u2", "<u4"):
            raise self.error(f"accessor {number} is sparse in a way that glTF does not have")
        rows = self._view(indices.get("bufferView"), indices.get("byteOffset", 0), index_kind, count, 1, number)[:, 0]
        if int(rows.max()) >= len(plain):
            raise self.error(f"accessor {number} replaces rows that it does not have")
        values = self._view(
            replacements.get("bufferView"), replacements.get("byteOffset", 0), kind, count, plain.shape[1], number
        )
        replaced = plain.copy()
        replaced[rows] = values
        return replaced

    @cached_property
    def parents(self) -> list[int]:
        """Parent of each node, -1 for the roots of the scenes; a cycle is refused."""
        nodes = self.items("nodes")
        parents = [-1] * len(nodes)
        for number, node in enumerate(nodes):
            for child in self.indices(node.get("children", []), len(nodes), "nodes"):
                if parents[child] >= 0:
                    raise self.error(f"node {child} has two parents")
                parents[child] = number
        seen = [parent < 0 for parent in parents]
        waiting = [number for number, top in enumerate(seen) if top]
        while waiting:
            for child in nodes[waiting.pop()].get("children", []):
                seen[child] = True
                waiting.append(child)
        if not all(seen):
            raise self.error(f"node {seen.index(False)} is below itself")
        return parents


def open_glb(path: Path) -> Container:
    """Read a GLB file, whatever its name (``.glb``, ``.vrm``, ``.vrma``), or a glTF file as text (``.gltf``)."""
    try:
        with open_file(path, MAX_BYTES) as file:
            data = file.read()
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read: {error.strerror or error}.") from error
    binary = b""
    if data[:4] == b"glTF":
        version, size = struct.unpack("<II", data[4:12]) if len(data) >= 12 else (0, 0)
        if version != 2:
            raise _other_version(path, version)
        chunks = dict(_chunks(data, min(size, len(data)), path))
        if b"JSON" not in chunks:
            raise MotionkitError(f"{path} has no JSON chunk.", fix="the file is damaged: export it again.")
        text, binary = chunks[b"JSON"], chunks.get(b"BIN\0", b"")
    elif data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        text = data
    else:
        why = "it is empty." if not data else "it begins neither with glTF nor, as glTF in text does, with {."
        raise MotionkitError(f"{path} is not a glTF file.", why=why, fix="export it as GLB, one .glb file.")
    try:
        document = parse_json(text.decode("utf-8-sig"), str(path), dict)
    except UnicodeDecodeError as error:
        raise MotionkitError(
            f"{path} is damaged.", why="its JSON is not UTF-8 text.", fix="export it again."
        ) from error
    container = Container(path, document, binary)
    if data[:4] != b"glTF":
        about = document.get("asset")
        if not isinstance(about, dict):
            raise MotionkitError(f"{path} is not a glTF file.", why="it is JSON without an asset.")
        if not str(version := about.get("version")).startswith("2."):
            raise _other_version(path, version)
    required = document.get("extensionsRequired", [])
    for name in required if isinstance(required, list) else []:
        if isinstance(name, str) and name in _PACKED:
            raise container.error(
                f"it is packed with {_PACKED[name]} ({name}), which is not read",
                fix=f"export it without {_PACKED[name]} compression.",
            )
    return _with_data_inside(container)


def _other_version(path: Path, version: object) -> MotionkitError:
    return MotionkitError(
        f"{path}: glTF {_short(version)} is not read.", why="version 2 is.", fix="export it as glTF 2.0."
    )


def _with_data_inside(file: Container) -> Container:
    """Return the file with the buffers that its document holds as text behind the BIN chunk, all as buffer 0."""
    buffers = file.items("buffers")
    if not any(_text(buffer.get("uri")).startswith("data:") for buffer in buffers):
        return file
    data, kept = bytearray(), [dict[str, Any]()]
    places: dict[int, tuple[int, int, int]] = {}  # buffer to its new number, and where it begins and ends there
    for number, buffer in enumerate(buffers):
        uri = buffer.get("uri")
        if "uri" in buffer and not _text(uri).startswith("data:"):
            places[number] = len(kept), 0, 0
            kept.append(buffer)
            continue
        content = file.binary if number == 0 and "uri" not in buffer else _decoded_uri(file, _text(uri))
        start = len(data) + -len(data) % 4
        data += b"\0" * (start - len(data)) + content
        places[number] = 0, start, len(data)
    views = []
    for number, view in enumerate(file.items("bufferViews")):
        buffer_number, start, end = places[file.index(view.get("buffer"), len(buffers), "buffers")]
        offset, length = _whole(view.get("byteOffset", 0)), _whole(view.get("byteLength"))
        if buffer_number == 0 and not 0 <= offset <= offset + length <= end - start:
            raise file.error(
                f"buffer view {number} ends beyond its buffer of {end - start} bytes",
                fix="the file is cut short or damaged: export it again.",
            )
        views.append({**view, "buffer": buffer_number, "byteOffset": start + max(offset, 0)})
    kept[0]["byteLength"] = len(data)
    return Container(file.path, {**file.document, "buffers": kept, "bufferViews": views}, bytes(data))


def _decoded_uri(file: Container, uri: str) -> bytes:
    kind, _, text = uri.partition(",")
    if not kind.endswith(";base64"):
        raise file.error("a buffer inside it is not base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise file.error("a buffer inside it is damaged", why="it is not base64.", fix="export it again.") from error


def _chunks(data: bytes, size: int, path: Path) -> list[tuple[bytes, bytes]]:
    """Return kind and content of the chunks; the first of a kind counts."""
    chunks: list[tuple[bytes, bytes]] = []
    at = 12
    while at + 8 <= size and len(chunks) < 2:
        length, kind = struct.unpack("<I4s", data[at : at + 8])
        if at + 8 + length > len(data):
            raise MotionkitError(
                f"{path} is cut short.",
                why=f"a chunk of {length} bytes begins {len(data) - at - 8} bytes before its end.",
                fix="copy or export it again.",
            )
        if kind not in (seen for seen, _ in chunks):
            chunks.append((kind, data[at + 8 : at + 8 + length]))
        at += 8 + length
    return chunks


def _whole(value: object) -> int:
    """Return a whole number; -1 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _short(value: object) -> str:
    return repr(value)[:40]
