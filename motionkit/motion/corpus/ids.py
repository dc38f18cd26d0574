"""Ids of clips, and the splits they belong to."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Container, Mapping
from typing import Literal

Split = Literal["train", "val", "test"]
"""A part of a dataset: for training, for decisions, and for the final measurement."""

LONGEST = 180
"""Bytes of an id. File names may have 255, and suffixes, parts and temporary names are added to it."""

_HASH = 10
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_UNFIT = re.compile(r'[\x00-\x1f\x7f-\x9f\ud800-\udfff#/\\<>:"|?*]')
"""Control characters, which terminals obey; surrogates, which no text file can hold; separators; and what Windows
allows in no file name."""

_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?=\.|\Z)", re.IGNORECASE)
_LAST_DOTS = re.compile(r"\.+\Z")
"""Names that Windows reserves for devices, with any suffix, and the dots that it drops from the end of a name."""


def original(name: str, names: Container[str]) -> str:
    """Return the id of the motion that `name` mirrors (``M<id>``, where `names` has ``<id>``), or `name` itself."""
    return name[1:] if name.startswith("M") and name[1:] in names else name


def plain_id(name: str) -> str:
    """Return a name fit for a file, on Windows too, and a split list: no blanks, slashes, control characters or ``#``.

    Names of Windows' devices get an underscore (``con`` becomes ``con_``), dots at the end become underscores. Accented
    letters are normalised (NFC), since file systems differ in it. Names longer than `LONGEST` keep their beginning and
    get a hash. An id stays as it is. A name without any legal character becomes ``clip``; an empty one stays empty.

    Example:
        >>> plain_id("takes/walk #1")
        'takes_walk__1'
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


def one_line(name: str) -> str:
    """Return a name in one line: without control characters and surrogates, with single blanks.

    Example:
        >>> one_line("Left  Hand ")
        'Left Hand'
    """
    return " ".join(_CONTROL.sub(" ", name).split())


SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val",
               "test": "test", "testing": "test"}  # fmt: skip
"""Names of the splits in files and tables, in lower case."""

SHARES = {"test": 0.15, "val": 0.05}
"""Parts of the clips that are held out, as in HumanML3D; the rest is train."""


def assign_splits(groups: Mapping[str, str]) -> dict[str, str]:
    """Give each clip a split by its group, the same on every machine.

    Groups are taken in the order of a hash of their names and fill test, then val; the rest is train. With three
    groups or more every split has at least one, and with 8 clips or more at least two clips, which retrieval needs.

    Returns:
        Clip id to ``train``, ``val`` or ``test``.

    Example:
        >>> splits = assign_splits({f"clip{number}": f"take{number // 2}" for number in range(40)})
        >>> splits["clip0"] == splits["clip1"], sorted(set(splits.values()))
        (True, ['test', 'train', 'val'])
    """
    members: dict[str, list[str]] = {}
    for clip, group in groups.items():
        members.setdefault(group, []).append(clip)
    order = sorted(members, key=lambda group: hashlib.sha256(group.encode()).hexdigest())
    splits: dict[str, str] = {}
    for split, share in SHARES.items():
        quota, count = max(share * len(groups), min(2, len(groups) // 4)), 0
        while len(order) > 1 and count < quota and (count == 0 or count + len(members[order[0]]) / 2 <= quota):
            group = order.pop(0)
            count += len(members[group])
            splits.update(dict.fromkeys(members[group], split))
    for group in order:
        splits.update(dict.fromkeys(members[group], "train"))
    return {clip: splits[clip] for clip in groups}


def complete_splits(given: Mapping[str, str], groups: Mapping[str, str]) -> dict[str, str]:
    """Give every clip without a split that of its group, or a new one if no clip of the group has any.

    If the clips of a group were given different splits, which is a leak already, the others get the last of `SPLITS`
    among them, so that nothing held out is trained on.

    Args:
        given: Clip id to split; empty if there is none.
        groups: Clip id to group.

    Returns:
        Clip id to ``train``, ``val`` or ``test``.
    """
    by_group: dict[str, str] = {}
    for clip, split in given.items():
        if split:
            by_group[groups[clip]] = max(split, by_group.get(groups[clip], split), key=SPLITS.index)
    splits = {clip: split or by_group.get(groups[clip], "") for clip, split in given.items()}
    return splits | assign_splits({clip: groups[clip] for clip, split in splits.items() if not split})


def read_split(name: object) -> tuple[str, tuple[str, ...]]:
    """Return the split that a file names; if there is no such split, an empty text and a warning."""
    text = str(name or "").strip()
    split = SPLIT_NAMES.get(text.lower(), "")
    if split or not text:
        return split, ()
    return "", (f"it names the split {text[:40]!r}, which is not one of {', '.join(SPLITS)}; it is ignored.",)
