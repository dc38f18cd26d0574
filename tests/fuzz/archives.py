"""Mutations of zip archives (``.npz``, torch's ``.pt``) by member, with checksums that are right again afterwards."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from .chance import INTEGERS, WORDS, Chance
from .raw import spoil_bytes

Spoil = Callable[[str, bytes, Chance], bytes]
_FIELDS = ("version", "flags", "method", "time", "date", "crc", "packed", "size")


@dataclass(frozen=True)
class Member:
    """One member as it is written."""

    name: bytes
    content: bytes
    deflate: bool
    sound: bool = True  # whether the content is as it was
    # Fields of the two headers that are written otherwise, and `at`; `only` is for one header: 0 local, 1 central.
    odd: dict[str, int] = field(default_factory=dict)

    def fields(self, packed: int, *, central: bool) -> list[int]:
        """Return the fields that both headers have; 1980-01-01 is their time."""
        odd = self.odd if self.odd.get("only", 2) in (int(central), 2) else {}
        plain = (20, 0, 8 * self.deflate, 0, 33, zlib.crc32(self.content), packed, len(self.content))
        pairs = enumerate(zip(_FIELDS, plain, strict=True))
        return [odd.get(name, value) % (2**16 if index < 5 else 2**32) for index, (name, value) in pairs]


def build(members: list[Member], before: bytes, comment: bytes) -> bytes:
    """Write an archive; nothing is looked at."""
    body, directory = bytearray(before), bytearray()
    for member in members:
        at = member.odd.get("at", len(body)) % 2**32
        packed = _deflated(member.content) if member.deflate else member.content
        local, central = (member.fields(len(packed), central=part) for part in (False, True))
        body += struct.pack("<4s5H3L2H", b"PK\3\4", *local, len(member.name), 0) + member.name + packed
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, *central, len(member.name), 0, 0, 0, 0, 0, at)
        directory += member.name
    ends = len(members), len(members), len(directory), len(body), len(comment)
    return bytes(body + directory) + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *ends) + comment


def spoil_zip(data: bytes, chance: Chance, inner: Spoil) -> bytes:
    """Change a sound archive; `inner` changes the sound content of a member, given its name."""
    if chance.random() < 0.1:
        return spoil_bytes(data, chance)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = [
            Member(entry.filename.encode(), archive.read(entry), entry.compress_type == zipfile.ZIP_DEFLATED)
            for entry in archive.infolist()
        ]
    for _ in range(chance.choice((1, 1, 2))):
        if found:
            _change(found, chance, inner)
    before = chance.choice((b"", b"", b"", b"", b"\0" * 7, b"PK\3\4"))
    return build(found, before, chance.choice((b"", b"", b"", b"x" * 300)))


def _change(found: list[Member], chance: Chance, inner: Spoil) -> None:
    place = chance.randrange(len(found))
    member = found[place]
    match chance.randrange(14):
        case 0:
            del found[place]
        case 1:
            found.append(replace(member, name=chance.choice((member.name, _other_name(member.name, chance)))))
        case 2:
            found[place] = replace(member, name=_other_name(member.name, chance))
        case 3:
            name = chance.choice(("flags", "version", "crc", "method", "size", "packed", "at"))
            value = chance.choice((*INTEGERS, 1, 8, 9, 12, 14, 63, 93, 99, 2048, 0xFFFF, 0xFFFFFFFF))
            found[place] = replace(member, odd={**member.odd, name: value, "only": chance.randrange(3)})
        case 4:  # much from little
            found[place] = replace(member, content=bytes([chance.choice(b"\0]([")]) * (1 << 20), deflate=True)
        case 5:
            found[place] = replace(member, deflate=not member.deflate)
        case _:
            name = member.name.decode("utf-8", "replace")
            content = inner(name, member.content, chance) if member.sound else spoil_bytes(member.content, chance)
            found[place] = replace(member, content=content, sound=False)


def _other_name(name: bytes, chance: Chance) -> bytes:
    word = chance.choice(WORDS).encode("utf-8", "surrogateescape")
    long = (name * 200)[:60_000]
    return chance.choice((word, b"../" + name, name + b"/", name.upper(), b"\xff" + name, b"constants.pkl", long, b""))


@lru_cache(maxsize=8)
def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()
