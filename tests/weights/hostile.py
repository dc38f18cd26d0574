"""Hostile files, made by code: what `test_hostile` reads, and what the fuzzer may begin with.

A reader that works refuses each of them, quickly and in little memory. Another runs code (which makes a file called
``executed`` in the current folder), crashes, hangs, takes gigabytes, or gives something that will do so later.
"""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
import zlib

from .hostile_pickles import PICKLES, POINTERS, RUNS, TENSORS, pickled, tensor, text

ONE = tensor(4, (4,), (1,))
"""A sound tensor, of the storage ``0``."""


def npy(body: bytes, header: str = "{'descr': '|O', 'fortran_order': False, 'shape': (), }") -> bytes:
    """A .npy file."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + body


def archive(
    members: dict[str, bytes] | list[tuple[str, bytes]], *, packed: bool = False, size: int = 0, **entry: int
) -> bytes:
    """A zip archive, with whatever fields.

    Args:
        members: Names and contents; with `packed`, contents that are deflated already.
        packed: Whether they are.
        size: What they unpack to, when it is not their own size.
        entry: Fields of each member: version, flags, offset.
    """
    out, directory = bytearray(), bytearray()
    for member, contents in members.items() if isinstance(members, dict) else members:
        encoded = member.encode("utf-8", "surrogateescape")
        fields = struct.pack(
            "<HHHHHIIIHH", entry.get("version", 20), entry.get("flags", 0), 8 if packed else 0, 0, 0x21,
            0 if packed else zlib.crc32(contents), len(contents), size or len(contents), len(encoded), 0,
        )  # fmt: skip
        directory += (
            b"PK\x01\x02\x14\x00" + fields + b"\0" * 10 + struct.pack("<I", entry.get("offset", len(out))) + encoded
        )
        out += b"PK\x03\x04" + fields + encoded + contents
    count = min(len(members), 65535)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(out), 0)
    return bytes(out + directory + b"PK\x05\x06" + end)


def zeros(size: int, byte: bytes = b"\0") -> bytes:
    """Deflated repetition of a byte, `size` megabytes of it, made without making them."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = pack.compress(byte * (1 << 20)) + pack.flush(zlib.Z_FULL_FLUSH)
    return first * size + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def zip_pt(body: bytes, **more: bytes) -> bytes:
    """What ``torch.save`` writes today, around a pickle."""
    return archive({"a/data.pkl": pickled(body), "a/data/0": b"\0" * 16, "a/version": b"3\n", **more})


def legacy_pt(body: bytes, storages: bytes = b"]" + text("0") + b"a") -> bytes:
    """What ``torch.save`` used to write, around a pickle."""
    heads = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
    first = b"".join(pickle.dumps(head, 2) for head in heads)
    return first + pickled(body) + pickled(storages) + struct.pack("<q", 4) + b"\0" * 16


def safetensors(header: bytes, size: int | None = None) -> bytes:
    """A .safetensors file without contents."""
    return struct.pack("<Q", len(header) if size is None else size) + header


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        link = tarfile.TarInfo("../../link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(link)
    return out.getvalue()


def _packed_tar() -> bytes:
    """A packed tar whose first header announces, and has, a comment of 2 GB."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 2000 << 20
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = block.compress(header.tobuf(tarfile.PAX_FORMAT)) + block.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08" + b"\0" * 6 + b"\xff" + start + zeros(2000) + b"\0" * 8


def _headers() -> dict[str, bytes]:
    """Headers of .npy files."""
    shapes = {
        "4 TiB": "(1099511627776,)", "rows of nothing": "(1099511627776, 0)", "negative": "(-1,)",
        "overflow": "(4294967296, 4294967296, 16)", "no numbers": "('a',)", "many": f"({'1, ' * 2000})",
        "call": "exec('x')",
    }  # fmt: skip
    types = {
        "objects in fields": "[('a', 'O')]", "fields": "[('a', 'f8')]", "subarray": "('f8', (2,))", "void": "'V8'",
        "deep": "(" * 3000, "code": "__import__('os')", "none": "None",
    }  # fmt: skip
    made = {f"shape {key}": npy(b"\0" * 64, f"{{'descr': '<f8', 'fortran_order': False, 'shape': {value}, }}")
            for key, value in shapes.items()}  # fmt: skip
    for key, value in types.items():
        made[f"type {key}"] = npy(POINTERS * 8, f"{{'descr': {value}, 'fortran_order': False, 'shape': (1,), }}")
    made["type texts"] = npy(b"\xff" * 4, "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }")
    made["length"] = b"\x93NUMPY\x02\x00" + struct.pack("<I", (1 << 32) - 1) + b" " * 100
    made["version"] = b"\x93NUMPY\x09\x09" + b"\0" * 64
    return made


def corpus() -> dict[str, bytes]:
    """Return all of them: name, with the suffix of a reader that takes it, to contents."""
    made: dict[str, bytes] = {}
    for key, body in PICKLES.items():
        made[f"{key}.npy"] = npy(pickled(body))
        made[f"{key}.npz"] = archive({"poses.npy": npy(pickled(body))})
        made[f"{key}.zip.pt"] = zip_pt(body)
        made[f"{key}.legacy.pt"] = legacy_pt(body)
        made[f"{key}.pkl"] = pickled(body)
    for key, body in TENSORS.items():
        made[f"tensor {key}.zip.pt"] = zip_pt(body)
        made[f"tensor {key}.legacy.pt"] = legacy_pt(body)
        made[f"tensor {key}.pkl"] = pickled(body)
    made |= {f"header {key}.npy": data for key, data in _headers().items()}
    one, stored = pickled(ONE), b"\0" * 16
    numbers = npy(b"\0" * 16, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }")
    long = zeros(3000)
    entry = b'{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    made |= {
        "legacy keys.legacy.pt": legacy_pt(ONE, b"]" + text("1") + b"a"),
        "legacy keys that run.legacy.pt": legacy_pt(ONE, RUNS),
        "legacy keys without end.legacy.pt": legacy_pt(ONE, PICKLES["bytearray8"]),
        "legacy first.legacy.pt": pickled(RUNS) + legacy_pt(b"N"),
        "legacy cut.legacy.pt": legacy_pt(ONE)[:-1],
        "zip packed pickle.zip.pt": archive({"a/data.pkl": long, "a/data/0": long}, packed=True, size=3000 << 20),
        "zip small packed pickle.zip.pt": archive({"a/data.pkl": zeros(1)}, packed=True, size=1 << 20),
        "zip huge pickle.zip.pt": archive({"a/data.pkl": b""}, size=1 << 31),
        "zip packed storage.zip.pt": archive([("a/data.pkl", one), ("a/data/0", b"\x03\0")], packed=True),
        "zip two pickles.zip.pt": archive([("a/data.pkl", one), ("a/data.pkl", pickled(RUNS)), ("a/data/0", stored)]),
        "zip two folders.zip.pt": archive({"a/data.pkl": one, "b/data.pkl": pickled(RUNS), "a/data/0": stored}),
        "zip no folder.zip.pt": archive({"data.pkl": one, "data/0": b"\0" * 16}),
        "zip upwards.zip.pt": archive({"../../a/data.pkl": one, "../../a/data/0": b"\0" * 16}),
        "zip encrypted.zip.pt": archive({"a/data.pkl": one, "a/data/0": stored}, flags=1),
        "zip of a later version.zip.pt": archive({"a/data.pkl": one, "a/data/0": stored}, version=255),
        "zip bad names.zip.pt": archive({"a/data.pkl": one, "a/\udcff\udcfe": b""}, flags=0x800),
        "zip beyond itself.zip.pt": archive({"a/data.pkl": one, "a/data/0": stored}, offset=1 << 30),
        "zip overlapping.zip.pt": archive([("a/data.pkl", one), *((f"a/data/{n}", b"") for n in range(9))], size=400),
        "zip long list.zip.pt": archive([(f"a/{n}" + "x" * 60_000, b"") for n in range(150)]),
        "zip cut.zip.pt": zip_pt(ONE)[:-30],
        "npz one long.npz": archive({"poses.npy": long}, packed=True, size=3000 << 20),
        "npz many.npz": archive({f"{n}.npy": zeros(60) for n in range(50)}, packed=True, size=60 << 20),
        "npz larger than said.npz": archive({"poses.npy": long}, packed=True, size=64),
        "npz opcodes.npz": archive(
            {"poses.npy": _stored(npy(b"\x80\x04")) + zeros(60, b"]")}, packed=True, size=len(npy(b"xx")) + (60 << 20)
        ),
        "npz of a later version.npz": archive({"poses.npy": numbers}, version=255),
        "npz encrypted.npz": archive({"poses.npy": numbers}, flags=1),
        "npz bad names.npz": archive({"\udcff.npy": numbers}, flags=0x800),
        "npz unpackable.npz": archive({"poses.npy": b"\xff" * 40}, packed=True, size=90),
        "npz long list.npz": archive([(f"{n}" + "x" * 60_000, b"") for n in range(150)]),
        "many names.safetensors": safetensors(b"{" + b",".join(b'"%06d":' % n + entry for n in range(80_000)) + b"}"),
        "one long name.safetensors": safetensors(b'{"' + b"a" * (9 << 20) + b'":{}}'),
        "deep.safetensors": safetensors(b'{"a":' * 100_000),
        "larger than itself.safetensors": safetensors(b'{"a":' + entry.replace(b"0]", b"4294967296]") + b"}"),
        "shape.safetensors": safetensors(b'{"a":' + entry.replace(b"[0]", b"[4294967296,4294967296]") + b"}"),
        "header.safetensors": safetensors(b'{"a":', size=90_000_000),
        "link.tar": _tar(),
        "packed.tar": _packed_tar(),
    }  # fmt: skip
    return made


def _stored(data: bytes) -> bytes:
    """Bytes as the beginning of something deflated."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    return pack.compress(data) + pack.flush(zlib.Z_FULL_FLUSH)
