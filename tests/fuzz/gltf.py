"""Mutations of GLB files: the JSON chunk as a document, the buffer as bytes, with lengths that are right again."""

from __future__ import annotations

import struct

from .chance import Chance
from .documents import spoil_json
from .raw import spoil_bytes


def spoil_glb(data: bytes, chance: Chance) -> bytes:
    """Change a sound GLB file: mostly its document, for everything in it points at something else."""
    roll = chance.random()
    if roll < 0.15:
        return spoil_bytes(data, chance)
    size = struct.unpack("<I", data[12:16])[0]
    text, binary = data[20 : 20 + size], data[28 + size :]
    if roll < 0.85:
        text = spoil_json(text, chance)
    else:
        binary = spoil_bytes(binary, chance)
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body
