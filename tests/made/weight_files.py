"""Pickles, archives and headers written by hand, piece by piece, as numpy and torch write them."""

from __future__ import annotations

import pickle
import struct
import zlib

# Pieces of pickles


def number(value: int) -> bytes:
    """An integer."""
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def text(value: str) -> bytes:
    """A text."""
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def raw(value: bytes) -> bytes:
    """Bytes."""
    return b"B" + struct.pack("<I", len(value)) + value


def items(*parts: bytes) -> bytes:
    """A tuple."""
    return b"(" + b"".join(parts) + b"t"


def name(full: str) -> bytes:
    """A function or class."""
    module, _, last = full.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def call(full: str, *arguments: bytes) -> bytes:
    """A call."""
    return name(full) + items(*arguments) + b"R"


def table(**entries: bytes) -> bytes:
    """A dict."""
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def dtype(code: str, *, order: str = "<", sizes: bytes = b"", flags: int = 0) -> bytes:
    """A numpy dtype with its state."""
    made = call("numpy.dtype", text(code), b"\x89", b"\x88")
    return made + items(number(3), text(order), b"NNN", sizes or number(-1) * 2, number(flags)) + b"b"


def array(shape: tuple[int, ...], kind: bytes, contents: bytes) -> bytes:
    """A numpy array."""
    empty = call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), items(number(0)), raw(b"b"))
    return empty + items(number(1), items(*map(number, shape)), kind, b"\x89", contents) + b"b"


def tensor(
    count: int, size: tuple[int, ...], stride: tuple[int, ...], *, at: int = 0, key: str = "0", kind: str = "Float"
) -> bytes:
    """A tensor of ``torch.save``, of `count` numbers that are stored."""
    storage = items(text("storage"), name(f"torch.{kind}Storage"), text(key), text("cpu"), number(count)) + b"Q"
    return call(
        "torch._utils._rebuild_tensor_v2",
        storage,
        number(at),
        items(*map(number, size)),
        items(*map(number, stride)),
        b"\x89",
        call("collections.OrderedDict"),
    )


def pickled(body: bytes) -> bytes:
    """The whole pickle."""
    return b"\x80\x04" + body + b"."


# Files


def npy(body: bytes, header: str = "{'descr': '|O', 'fortran_order': False, 'shape': (), }") -> bytes:
    """A .npy file."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + body


def archive(members: dict[str, bytes] | list[tuple[str, bytes]], *, size: int = 0, **entry: int) -> bytes:
    """A zip archive.

    Args:
        members: Names and contents, stored as they are.
        size: What the members are said to hold, if it is not what they hold.
        entry: Fields of each member: version, flags, offset.
    """
    out, directory = bytearray(), bytearray()
    for member, contents in members.items() if isinstance(members, dict) else members:
        encoded = member.encode("utf-8", "surrogateescape")
        fields = struct.pack(
            "<HHHHHIIIHH", entry.get("version", 20), entry.get("flags", 0), 0, 0, 0x21, zlib.crc32(contents),
            len(contents), size or len(contents), len(encoded), 0,
        )  # fmt: skip
        directory += b"PK\x01\x02\x14\x00" + fields + b"\0" * 10
        directory += struct.pack("<I", entry.get("offset", len(out))) + encoded
        out += b"PK\x03\x04" + fields + encoded + contents
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(out), 0)
    return bytes(out + directory + b"PK\x05\x06" + end)


def zip_pt(body: bytes, **more: bytes) -> bytes:
    """What ``torch.save`` writes today, around a pickle; one storage of four float32."""
    return archive({"a/data.pkl": pickled(body), "a/data/0": b"\0" * 16, "a/version": b"3\n", **more})


def legacy_pt(body: bytes, storages: bytes = b"]" + text("0") + b"a") -> bytes:
    """What ``torch.save`` used to write, around a pickle; one storage of four float32."""
    heads = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
    first = b"".join(pickle.dumps(head, 2) for head in heads)
    return first + pickled(body) + pickled(storages) + struct.pack("<q", 4) + b"\0" * 16


def safetensors(header: bytes, size: int | None = None) -> bytes:
    """A .safetensors file without contents."""
    return struct.pack("<Q", len(header) if size is None else size) + header
