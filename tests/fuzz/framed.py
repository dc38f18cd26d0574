"""Mutations of files that hold a JSON document with its length before it: safetensors and GLB."""

from __future__ import annotations

import json
import struct

from .chance import INTEGERS, Chance
from .documents import spoil_json
from .raw import spoil_bytes


def spoil_tensors(data: bytes, chance: Chance) -> bytes:
    """Change a sound safetensors file: its header, the entry of a tensor, the numbers behind it, or any bytes."""
    length = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + length], data[8 + length :]
    roll = chance.random()
    if roll < 0.15:
        return spoil_bytes(data, chance)
    if roll < 0.35:
        return data[: 8 + length] + spoil_bytes(body, chance)
    header = _entries(header, chance) if roll < 0.6 else spoil_json(header, chance)
    header += b" " * (-len(header) % 8)
    length = len(header) if chance.random() < 0.9 else chance.choice(INTEGERS) % 2**64
    return struct.pack("<Q", length) + header + body


def _entries(header: bytes, chance: Chance) -> bytes:
    """Change the entry of one tensor."""
    table = json.loads(header)
    name, other = (chance.choice([key for key in table if key != "__metadata__"]) for _ in range(2))
    entry = table[name]
    shapes = ([], [0], [1], entry["shape"][::-1], [*entry["shape"], 1], [5, 4], [-1], [100])
    match chance.randrange(6):
        case 0:
            del table[name]
        case 1:
            table[chance.choice((name + "x", "module." + name, name.upper(), "", "x" * 5000))] = table.pop(name)
        case 2:
            entry["dtype"] = chance.choice(("F64", "F16", "BF16", "I64", "BOOL", "U8", "F8_E4M3", "C64", "X", "", "F4"))
        case 3:
            entry["shape"] = chance.choice(shapes)
        case 4:
            entry["data_offsets"] = table[other]["data_offsets"]
        case _:
            entry["data_offsets"] = [chance.choice((0, 1, 4, 1000)), chance.choice((0, 4, 8, 1000))]
    return json.dumps(table).encode()


def spoil_glb(data: bytes, chance: Chance) -> bytes:
    """Change a sound GLB file: mostly its document, for everything in it points at something else."""
    roll = chance.random()
    if roll < 0.15:
        return spoil_bytes(data, chance)
    size = struct.unpack("<I", data[12:16])[0]
    text, binary = data[20 : 20 + size], data[28 + size :]
    text, binary = (spoil_json(text, chance), binary) if roll < 0.85 else (text, spoil_bytes(binary, chance))
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body
