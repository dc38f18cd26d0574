"""Mutations of pickles by opcode: another order, names that are in no table, lengths that are not there.

Nothing that is put in calls anything or takes much memory, whoever reads it.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from functools import lru_cache

from .chance import Chance
from .raw import spoil_bytes

_LENGTHS = {b"X": "<I", b"\x8c": "B", b"B": "<I", b"C": "B", b"\x8a": "B", b"\x8e": "<Q", b"\x96": "<Q"}
"""Opcodes whose argument begins with its length."""

_PIECES = (
    b"cfractions\nFraction\n", b"cdatetime\ndate\n", b"c\n\n", b"\x8c\x09fractions\x8c\x08Fraction\x93",
    b"cnumpy\nndarray\n", b"ccollections\nOrderedDict\n", b"ctorch\nFloatStorage\n", b"cargparse\nNamespace\n",
    *(code + struct.pack(layout, 100) for code, layout in _LENGTHS.items()), b"\x95" + struct.pack("<Q", 100),
    b"j" + struct.pack("<I", 1000), b"h\xff", b"\x97", b"\x98", b"\x82\x01", b"Pid\n", b"NQ", b"]" * 200, b"(" * 200,
    b"N", b"\x88", b"\x89", b"}", b"]", b")", b"\x8f", b"(", b"0", b"1", b"2", b"e", b"a", b"s", b"u", b"t", b"d",
    b"l", b"\x85", b"\x86", b"\x87", b"\x90", b"\x91", b".", b"\x94", b"Fnan\n", b"G\x7f\xf0" + b"\0" * 6, b"K\x00",
    b"M\xff\xff", b"J\xff\xff\xff\xff", b"\x80\x05", b"\x80\xff", b"X\x03\x00\x00\x00\xed\xa0\x80", b"S'x'\n",
)  # fmt: skip


def spoil_pickle(data: bytes, chance: Chance) -> bytes:
    """Change a sound pickle, or several in a row as torch's first format has them."""
    if chance.random() < 0.15:
        return spoil_bytes(data, chance)
    operations, rest = _operations(data)
    # What frames say would no longer be true; a pickle without them is one as well.
    found = [piece for piece in operations if piece[:1] != pickle.FRAME]
    for _ in range(chance.choice((1, 1, 2, 3))):
        _change(found, chance)
    return b"".join(found) + rest


@lru_cache(maxsize=64)
def _operations(data: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """Return the first pickle's opcodes, each with its argument, and what comes after the pickle."""
    starts = [place or 0 for _, _, place in pickletools.genops(data)]
    end = data.index(b".", starts[-1]) + 1
    return tuple(data[a:b] for a, b in zip(starts, [*starts[1:], end], strict=True)), data[end:]


def _change(found: list[bytes], chance: Chance) -> None:
    if not found:
        found.append(chance.choice(_PIECES))
        return
    place, other = chance.randrange(len(found)), chance.randrange(len(found))
    match chance.randrange(6):
        case 0 | 1:
            found.insert(place, chance.choice(_PIECES))
        case 2:
            del found[place]
        case 3:
            found.insert(place, found[place])
        case 4:
            found[place], found[other] = found[other], found[place]
        case _:  # the nearest length, one more or less
            code, layout = found[place][:1], _LENGTHS.get(found[place][:1])
            if layout is None:
                found[place] = chance.choice(_PIECES)
            else:
                size = struct.calcsize(layout)
                (length,) = struct.unpack(layout, found[place][1 : 1 + size])
                changed = max(0, length + chance.choice((-1, 1))) % 256
                found[place] = code + struct.pack(layout, changed) + found[place][1 + size :]
