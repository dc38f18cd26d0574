"""Mutations of pickles by opcode: other arguments, other order, and pieces that ask for much or call something."""

from __future__ import annotations

import pickle
import pickletools
import struct
from functools import lru_cache

from .chance import INTEGERS, Chance
from .raw import spoil_bytes

_GLOBALS = (
    b"cos\nsystem\n", b"cbuiltins\neval\n", b"cbuiltins\nexec\n", b"c__builtin__\n__import__\n", b"cnumpy\ndtype\n",
    b"cnumpy\nndarray\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy._core.multiarray\nscalar\n",
    b"cnumpy._core.numeric\n_frombuffer\n", b"ccollections\nOrderedDict\n", b"ccollections\ndefaultdict\n",
    b"cbuiltins\nset\n", b"cbuiltins\nfrozenset\n", b"cbuiltins\nbytearray\n", b"cbuiltins\nlist\n",
    b"c_codecs\nencode\n",
    b"cargparse\nNamespace\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n", b"ctorch\nSize\n",
    b"cbuiltins\ncomplex\n", b"cbuiltins\nint\n", b"cbuiltins\nstr\n", b"cbuiltins\ngetattr\n", b"cposix\nsystem\n",
    b"ctorch._utils\n_rebuild_parameter\n", b"ctorch.serialization\nload\n", b"c\n\n", b"cpathlib\nPosixPath\n",
)  # fmt: skip
_TEXT = b"X\x02\x00\x00\x00id"
_SHARED = b"N\x85q\x7f" + b"".join(b"0h\x7fh\x7f\x86q\x7f" for _ in range(45))
"""A tuple of one tuple twice, 45 deep: hashing it takes 2 to the 45 steps."""

_PIECES = (
    *_GLOBALS, *(name + _TEXT + b"\x85R" for name in _GLOBALS[:4]), b"(ios\nsystem\n",
    b"(cos\nsystem\nX\x02\x00\x00\x00ido",
    b"\x8c\x02os\x8c\x06system\x93", b"\x82\x01", b"Pid\n", b"NQ", b"\x97", b"\x98",
    b"\x96" + struct.pack("<Q", 6 << 30), b"\x96" + struct.pack("<Q", 1 << 62), b"\x8e" + struct.pack("<Q", 6 << 30),
    b"\x8d" + struct.pack("<Q", 6 << 30), b"\x95" + struct.pack("<Q", 1 << 40), b"B" + struct.pack("<I", 2**32 - 1),
    b"\x8b" + struct.pack("<i", 2**31 - 1), b"\x8b" + struct.pack("<i", -1), b"L" + b"9" * 5000 + b"L\n",
    b"I" + b"9" * 5000 + b"\n",
    b"Nr" + struct.pack("<I", 2**31 - 1), b"j" + struct.pack("<I", 2**32 - 1), b"h\xff", _SHARED,
    b"}" + _SHARED + b"Ns",
    b"\x8f(" + _SHARED + b"\x90", b"(" + _SHARED + b"\x91", b"cbuiltins\nset\n](" + _SHARED + b"e\x85R",
    b"]" * 200_000, b"(" * 200_000, b"]q\x01h\x01a", b"}q\x01(h\x01h\x01u", b"2" * 1000, b"\x85" * 100_000,
    b"cnumpy\ndtype\nX\x02\x00\x00\x00V8\x85R(K\x03X\x01\x00\x00\x00|NX\x01\x00\x00\x00a\x85}X\x01\x00\x00\x00acnumpy\ndtype\nX\x02"
    b"\x00\x00\x00O8\x85RK\x00\x86sK\x08K\x01K\x00tb",
    b"cnumpy\ndtype\nX\x0b\x00\x00\x00S2000000000\x85R", b"cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R",
    b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R", b"cnumpy\nndarray\n\x8a\x05\x00\x00\x00\x00\x02\x85\x85R",
    b"N", b"\x88", b"\x89", b"}", b"]", b")", b"\x8f", b"(", b"0", b"1", b"2", b"e", b"a", b"s", b"u", b"t", b"d",
    b"l", b"b", b"R",
    b"\x81", b"\x92", b"\x85", b"\x86", b"\x87", b"\x90", b"\x91", b".", b"\x94", b"Fnan\n", b"G\x7f\xf0" + b"\0" * 6,
    b"K\x00", b"M\xff\xff", b"J\xff\xff\xff\xff", b"\x80\x05", b"\x80\xff", b"Vx\\ud800\n",
    b"X\x03\x00\x00\x00\xed\xa0\x80",
    b"S'\\x00'\n", b"Sx\n", b"U\xffx", b"C\xffx", b"T\xff\xff\xff\xff",
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
    place = chance.randrange(len(found)) if found else 0
    match chance.randrange(8):
        case 0 | 1 | 2:
            found.insert(place, chance.choice(_PIECES))
        case 3 if found:
            del found[place]
        case 4 if found:
            found[place:place] = [found[place]] * chance.choice((1, 1, 50))
        case 5 if found:  # another argument: its length, its number or its text
            code, argument = found[place][:1], found[place][1:]
            size = len(argument) if len(argument) in (1, 2, 4, 8) else 0
            if size:
                found[place] = code + (chance.choice(INTEGERS) % (1 << 8 * size)).to_bytes(size, "little")
            else:
                found[place] = code + spoil_bytes(argument, chance)
        case 6 if found:
            other = chance.randrange(len(found))
            found[place], found[other] = found[other], found[place]
        case 7 if found:
            found[place] = chance.choice(_PIECES)
        case _:
            found.append(chance.choice(_PIECES))
