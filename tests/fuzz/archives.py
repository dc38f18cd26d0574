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

_STORED, _DEFLATED = 0, 8
Spoil = Callable[[str, bytes, Chance], bytes]


@dataclass(frozen=True)
class Member:
    """One member as it is written.

    Attributes:
        name: Its name.
        packed: Its bytes in the file.
        method: 0 stored, 8 deflated.
        size: Bytes it unpacks to.
        crc: Checksum of these.
        odd: Fields of the two headers that are written otherwise: ``flags``, ``version``, ``crc``, ``method``,
            ``size``, ``packed``, ``at``, and ``only`` for one header.
        sound: Whether the content is as it was.
    """

    name: bytes
    packed: bytes
    method: int
    size: int
    crc: int
    odd: dict[str, int] = field(default_factory=dict)
    sound: bool = True


def pack(name: bytes, content: bytes, *, deflate: bool = False, sound: bool = True) -> Member:
    """Return a member with this content."""
    packed = _deflated(content) if deflate else content
    return Member(name, packed, _DEFLATED if deflate else _STORED, len(content), zlib.crc32(content), sound=sound)


def members_of(data: bytes) -> list[tuple[str, bytes, bool]]:
    """Return name, content and whether it is deflated of each member of a sound archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(entry.filename, archive.read(entry), entry.compress_type != _STORED) for entry in archive.infolist()]


def build(members: list[Member], *, before: bytes = b"", comment: bytes = b"") -> bytes:
    """Write an archive; nothing is looked at."""
    body, directory = bytearray(before), bytearray()
    for member in members:
        start = len(body)
        local = dict(zip(_NAMES, _fields(member, central=False), strict=True))
        body += struct.pack("<4s5H3L2H", b"PK\3\4", *local.values(), len(member.name), 0) + member.name + member.packed
        fields = _fields(member, central=True)
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, *fields, len(member.name), 0, 0, 0, 0, 0, member.odd.get("at", start) % 2**32
        )
        directory += member.name
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(body), len(comment))
    return bytes(body + directory) + end + comment


def spoil_zip(data: bytes, chance: Chance, inner: Spoil) -> bytes:
    """Change an archive.

    Args:
        data: A sound archive.
        chance: What it draws from.
        inner: Changes the sound content of a member, given its name.
    """
    if chance.random() < 0.1:
        return spoil_bytes(data, chance)
    found = [pack(name.encode(), content, deflate=deflate) for name, content, deflate in members_of(data)]
    for _ in range(chance.choice((1, 1, 2))):
        _change(found, chance, inner)
    before = chance.choice((b"", b"", b"", b"", b"\0" * 7, b"PK\3\4"))
    return build(found, before=before, comment=chance.choice((b"", b"", b"", b"x" * 300)))


def _change(found: list[Member], chance: Chance, inner: Spoil) -> None:
    if not found:
        return
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
            name = chance.choice(("flags", "version", "crc", "method", "size", "packed", "at", "made"))
            value = chance.choice((*INTEGERS, 1, 8, 9, 12, 14, 63, 93, 99, 2048, 0xFFFF, 0xFFFFFFFF))
            found[place] = replace(member, odd={**member.odd, name: value, "only": chance.randrange(3)})
        case 4:  # much from little
            found[place] = replace(
                _bomb(chance.choice((b"\0", b"]", b"(", b"[", b"N")), chance.choice((1, 60))), name=member.name
            )
        case 5:
            content = _content(member)
            found[place] = pack(member.name, content, deflate=member.method == _STORED, sound=member.sound)
        case _:
            content = _content(member)
            name = member.name.decode("utf-8", "replace")
            content = inner(name, content, chance) if member.sound else spoil_bytes(content, chance)
            found[place] = pack(member.name, content, deflate=member.method == _DEFLATED, sound=False)


def _content(member: Member) -> bytes:
    return member.packed if member.method == _STORED else zlib.decompress(member.packed, -15)


def _other_name(name: bytes, chance: Chance) -> bytes:
    word = chance.choice(WORDS).encode("utf-8", "surrogateescape")
    long = (name * 200)[:60_000]
    return chance.choice((word, b"../" + name, name + b"/", name.upper(), b"\xff" + name, b"constants.pkl", long, b""))


_NAMES = ("version", "flags", "method", "time", "date", "crc", "packed", "size")


def _fields(member: Member, *, central: bool) -> list[int]:
    """Return the fields that both headers have; 1980-01-01 is their time."""
    odd = member.odd if member.odd.get("only", 2) in (int(central), 2) else {}
    plain = {"version": 20, "flags": 0, "method": member.method, "time": 0, "date": 33, "crc": member.crc}
    plain |= {"packed": len(member.packed), "size": member.size}
    return [odd.get(name, plain[name]) % (2**16 if index < 5 else 2**32) for index, name in enumerate(_NAMES)]


@lru_cache(maxsize=16)
def _bomb(byte: bytes, megabytes: int) -> Member:
    return pack(b"", byte * (megabytes << 20), deflate=True)


@lru_cache(maxsize=64)
def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()
