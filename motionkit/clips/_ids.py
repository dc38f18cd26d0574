"""Clip ids of files, and groups of files of the same take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from motionkit.motion.corpus._ids import plain_id

_PART = re.compile(r"_p\d+$")
"""Suffix of the parts of a long clip."""


def unique_keys(files: Sequence[tuple[Path, Path]]) -> list[str]:
    """Return an id per file; ids differ by more than case, because some file systems ignore case.

    An id is the file's name without ending. Where several files have the same one, the folders below the given folder
    are put before it, then the name of the given folder, and if they are still the same, a number is added.

    Args:
        files: Each file with the folder that was given to find it in (its own for a file that was given itself).
    """
    names = [
        (plain_id(file.stem), plain_id("_".join(inside)), plain_id("_".join((base.absolute().name, *inside))))
        for file, base, inside in ((file, base, _inside(file, base)) for file, base in files)
    ]
    counts = [Counter(name[level].lower() for name in names) for level in range(3)]
    keys: list[str] = []
    taken: set[str] = set()
    for choices in names:
        key = next((name for name, count in zip(choices, counts, strict=True) if count[name.lower()] == 1), choices[2])
        plain, number = key, 2
        while key.lower() in taken:
            key, number = plain_id(f"{plain}_{number}"), number + 1
        taken.add(key.lower())
        keys.append(key)
    return keys


def shared_takes(files: Sequence[Path], keys: Sequence[str]) -> list[str]:
    """Return a group per file; files of one take share it: a clip, its mirror image ``M...``, its parts ``..._p0``.

    All clips of a group get the same split, whichever folders they come from. A group is named after its first file;
    a file that is alone has none.

    Args:
        files: All files.
        keys: Their ids.
    """
    known = set(files)
    takes = []
    for file in files:
        stem = file.stem
        if stem.startswith("M") and file.with_name(stem[1:] + file.suffix) in known:
            stem = stem[1:]
        takes.append(file.with_name(_PART.sub("", stem) or stem))
    counts, first = Counter(takes), dict(zip(reversed(takes), reversed(keys), strict=True))
    return [first[take] if counts[take] > 1 else "" for take in takes]


def _inside(file: Path, base: Path) -> tuple[str, ...]:
    # Paths as given, not resolved: a link may lead to another folder.
    return file.relative_to(base).with_suffix("").parts
