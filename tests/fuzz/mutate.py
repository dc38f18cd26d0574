"""From sound files to hostile ones: each file is changed as what it is, and its folder as a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from .archives import spoil_zip
from .arrays import MAGIC, spoil_npy
from .chance import Chance
from .documents import spoil_json
from .framed import spoil_glb, spoil_tensors
from .opcodes import spoil_pickle
from .raw import spoil_bytes
from .texts import spoil_text


class Special(str):
    """What lies in a file's place instead: ``folder``, ``pipe``, or ``link TARGET``."""

    __slots__ = ()


Files = Mapping[str, bytes | Special]
"""A folder: path relative to it, with ``/``, to content."""

_SPECIAL = ("folder", "link nowhere", "link .", "link ..", "link loop") * 3 + ("pipe",)


def mutate(files: Files, chance: Chance) -> Files:
    """Change one or several files of a sound folder.

    Args:
        files: The folder; a file that is its only one is never taken away.
        chance: What decides.
    """
    spoilt, sound = dict(files), set(files)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        name = chance.choice(sorted(spoilt) or [""])
        content = spoilt.get(name)
        if not isinstance(content, bytes):
            continue
        roll = chance.random()
        if roll < 0.02 and len(spoilt) > 1:
            del spoilt[name]
        elif roll < 0.04:
            spoilt[name] = Special(chance.choice(_SPECIAL))
        elif roll < 0.05:
            spoilt[name] = b""
        elif roll < 0.07:
            spoilt[name] = files[chance.choice(sorted(files))]
        else:
            # What was changed before is not taken apart again: it need not be sound.
            spoilt[name] = spoil_file(name, content, chance) if name in sound else spoil_bytes(content, chance)
            sound.discard(name)
    return spoilt


def spoil_file(name: str, data: bytes, chance: Chance) -> bytes:
    """Change a sound file as what its content or its ending says it is."""
    if not data:
        return chance.choice((b"\0", b"{}", b"[]", b"\x80", b"x", b"\n"))
    if data[:4] == b"PK\3\4":
        return spoil_zip(data, chance, spoil_file)
    if data[:6] == MAGIC:
        return spoil_npy(data, chance)
    if data[8:9] == b"{" and int.from_bytes(data[:8], "little") <= len(data):
        return spoil_tensors(data, chance)
    if data[:4] == b"glTF":
        return spoil_glb(data, chance)
    if data[:1] == b"\x80":
        return spoil_pickle(data, chance)
    return _BY_SUFFIX.get(PurePosixPath(name).suffix, spoil_text if _is_text(data) else spoil_bytes)(data, chance)


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:1000]


_BY_SUFFIX: dict[str, Callable[[bytes, Chance], bytes]] = {
    ".json": spoil_json,
    ".jsonl": spoil_json,
    ".gltf": spoil_json,
}
