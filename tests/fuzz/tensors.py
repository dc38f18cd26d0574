"""Mutations of safetensors files: the JSON header, its length, the offsets in it, and the numbers behind it."""

from __future__ import annotations

import json
import struct

from .chance import INTEGERS, Chance
from .documents import spoil_json
from .raw import spoil_bytes


def spoil_tensors(data: bytes, chance: Chance) -> bytes:
    """Change a sound safetensors file."""
    length = int.from_bytes(data[:8], "little")
    roll = chance.random()
    if roll < 0.15:
        return spoil_bytes(data, chance)
    header, body = data[8 : 8 + length], data[8 + length :]
    if roll < 0.35:
        return data[: 8 + length] + _numbers(body, chance)
    header = _entries(header, chance) if roll < 0.6 else spoil_json(header, chance)
    header += b" " * (-len(header) % 8)
    length = len(header) if chance.random() < 0.9 else chance.choice(INTEGERS) % 2**64
    return struct.pack("<Q", length) + header + body


def _numbers(body: bytes, chance: Chance) -> bytes:
    """Overwrite values with what is not finite, or change how many there are."""
    if chance.random() < 0.3 or len(body) < 8:
        return spoil_bytes(body, chance)
    spoilt = bytearray(body)
    value = struct.pack("<f", chance.choice((float("nan"), float("inf"), -1.0, 1e38, 0.0)))
    for _ in range(chance.choice((1, 8, 1000))):
        place = chance.randrange(len(body) // 4) * 4
        spoilt[place : place + 4] = value
    return bytes(spoilt)


def _entries(header: bytes, chance: Chance) -> bytes:
    """Change the entry of one tensor."""
    table = json.loads(header)
    name = chance.choice([key for key in table if key != "__metadata__"])
    entry = table[name]
    match chance.randrange(6):
        case 0:
            del table[name]
        case 1:
            table[chance.choice((name + "x", "module." + name, name.upper(), "", "x" * 5000))] = table.pop(name)
        case 2:
            entry["dtype"] = chance.choice(("F64", "F16", "BF16", "I64", "BOOL", "U8", "F8_E4M3", "C64", "X", "", "F4"))
        case 3:
            entry["shape"] = chance.choice(
                ([], [0], [1], entry["shape"][::-1], [*entry["shape"], 1], [2**62, 4], [-1], [2**64])
            )
        case 4:
            other = chance.choice([key for key in table if key != "__metadata__"])
            entry["data_offsets"] = table[other]["data_offsets"]
        case _:
            entry["data_offsets"] = [chance.choice((0, 1, 4, 2**63, 2**64 - 1)), chance.choice((0, 4, 8, 2**63))]
    return json.dumps(table).encode()
