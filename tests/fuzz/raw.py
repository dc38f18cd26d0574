"""Mutations of bytes, whatever they mean."""

from __future__ import annotations

import struct

from .chance import INTEGERS, WORDS, Chance, piece

_LARGEST = 4 << 20


def spoil_bytes(data: bytes, chance: Chance) -> bytes:
    """Flip, cut, repeat, overwrite, swap or insert."""
    begin, end = piece(data, chance)
    match chance.randrange(10):
        case 0:  # flip bits
            spoilt = bytearray(data)
            for _ in range(chance.choice((1, 1, 2, 8))):
                if spoilt:
                    spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
            return bytes(spoilt)
        case 1:
            return data[:begin]
        case 2:
            return data[:begin] + data[end:]
        case 3:  # repeat
            times = chance.choice((2, 3, 100, 10_000))
            return data[:begin] + data[begin:end] * times + data[end:]
        case 4:  # noise of the same length
            return data[:begin] + chance.randbytes(end - begin) + data[end:]
        case 5:  # an integer of 1 to 8 bytes
            width, order = chance.choice(("B", "H", "I", "Q")), chance.choice("<>")
            size = struct.calcsize(width)
            value = struct.pack(order + width, chance.choice(INTEGERS) % (1 << 8 * size))
            return data[:begin] + value + data[begin + size :]
        case 6:
            return (
                data[:begin] + chance.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\x1b")) * (end - begin) + data[end:]
            )
        case 7:
            return data[:begin] + chance.choice(WORDS).encode("utf-8", "surrogateescape") + data[begin:]
        case 8:  # two pieces change places
            first, last = sorted((begin, chance.randrange(len(data) + 1)))
            return data[last:] + data[first:last] + data[:first]
        case _:
            return (data * chance.choice((2, 3, 50)))[:_LARGEST]
