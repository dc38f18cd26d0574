"""Ids of clips: fit for file names on every system, for split lists and for caption lines."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Container

LONGEST = 180
"""Bytes of an id. File names may have 255 at most, and endings, parts and temporary names are still added."""

_HASH = 10
_UNFIT = re.compile(r'[\x00-\x1f\x7f-\x9f\ud800-\udfff#/\\<>:"|?*]')
"""Control characters, which terminals obey; halves of characters, which no file can hold as text; separators; and what
Windows has in no file name."""

_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?=\.|\Z)", re.IGNORECASE)
_LAST_DOTS = re.compile(r"\.+\Z")
"""Names that Windows keeps for devices, whatever ending follows, and the dots that it drops from the end of a name."""


def original(name: str, names: Container[str]) -> str:
    """Return the id of the motion that `name` mirrors (``M<id>``, where `names` has ``<id>``), or `name` itself."""
    return name[1:] if name.startswith("M") and name[1:] in names else name


def plain_id(name: str) -> str:
    """Return a name fit for a file, on Windows too, and a split list: no blanks, slashes, control characters or ``#``.

    Names of Windows' devices get an underscore (``con`` becomes ``con_``), dots at the end become underscores. One
    spelling of accented letters (NFC), since file systems differ in it and tables come from elsewhere. Longer names
    than `LONGEST` keep their beginning and get a hash, so that different ones stay different. An id stays as it is. A
    name of which nothing is left becomes ``clip``; an empty one stays empty.
    """
    plain = "_".join(_UNFIT.sub(lambda match: " " if match[0].isspace() else "_", name).split())
    plain = unicodedata.normalize("NFC", plain) or (name and "clip")
    plain = _LAST_DOTS.sub(lambda dots: "_" * len(dots[0]), plain)
    if device := _DEVICE.match(plain):
        plain = f"{device[0]}_{plain[device.end() :]}"
    data = plain.encode()
    if len(data) <= LONGEST:
        return plain
    digest = hashlib.sha256(data).hexdigest()[:_HASH]
    return f"{data[: LONGEST - _HASH - 1].decode(errors='ignore')}-{digest}"
