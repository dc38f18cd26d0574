"""The formats that are installed: who reads a file, and who writes one.

A package brings formats by an entry point of the group ``motionkit.formats``, which names a `Format` or a tuple of
them; motionkit's own are in `motionkit.formats.own`. A format is ignored whose name another one has, or which has a
setting of another one's name and other content, or which does not import; ``plugins list --check`` and ``doctor`` say
so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.formats.format import Format, Setting
from motionkit.formats.peek import Peek
from motionkit.plugins import Entry, packages

if TYPE_CHECKING:
    from motionkit.motion.clip import Clip, ReadOptions

_logger = logging.getLogger("motionkit.plugins")


@dataclass(frozen=True)
class _Found:
    formats: Mapping[str, Format]
    ours: frozenset[str]  # Names of those of `motionkit` itself
    problems: tuple[str, ...]  # What is ignored, and why


class _Formats(Mapping[str, Format]):
    """Every format by its name, in the order of lists."""

    def __getitem__(self, name: str) -> Format:
        return _found().formats[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_found().formats)

    def __len__(self) -> int:
        return len(_found().formats)


FORMATS: Mapping[str, Format] = _Formats()
"""Every format by its name, in the order of lists."""


def _found() -> _Found:
    entries = plugins.scan().of("formats")
    return _load(tuple(sorted(entries, key=lambda entry: entry.distribution != plugins.HOME)))


@lru_cache(maxsize=8)
def _load(entries: tuple[Entry, ...]) -> _Found:
    if not any(entry.builtin for entry in entries):
        raise MotionkitError(plugins.NOT_INSTALLED, fix=plugins.INSTALL_FIX)
    found: dict[str, Format] = {}
    ours: set[str] = set()
    problems: list[str] = []
    for entry in entries:
        try:
            for row in _rows(entry):
                if why := _taken(row, found):
                    problems.append(f"format {row.name!r} of package {entry.distribution!r} is ignored: {why}")
                    continue
                found = _after(found, row)
                if entry.distribution == plugins.HOME:
                    ours.add(row.name)
        except MotionkitError as error:
            problems.append(str(error))
    for problem in problems:
        _logger.warning("%s", problem)
    return _Found(found, frozenset(ours), tuple(problems))


def _rows(entry: Entry) -> Sequence[Format]:
    """Import the formats that an entry point names."""
    named = plugins.load(entry)
    rows = (named,) if isinstance(named, Format) else tuple(named) if isinstance(named, Iterable) else (named,)
    for row in rows:
        if not isinstance(row, Format):
            raise MotionkitError(
                f"{entry.value} of package {entry.distribution!r} is a {type(row).__name__}, not a motionkit Format.",
                fix=f"update or remove {entry.distribution}.",
            )
        if not entry.builtin:
            title = f"format {row.name!r} of package {entry.distribution!r}"
            for target in row.targets:
                plugins.claim(target.partition(":")[0], title, entry.distribution)
    return rows


def _taken(row: Format, found: Mapping[str, Format]) -> str:
    """Return why a format cannot be beside others; empty if it can."""
    if row.name in found:
        return "there is one"
    for other in found.values():
        for one in other.settings:
            if any(mine.name == one.name and mine != one for mine in row.settings):
                return f"its setting {one.name!r} is another one of the format {other.name!r}"
    return ""


def _after(found: Mapping[str, Format], row: Format) -> dict[str, Format]:
    """Return formats with another one in its place."""
    names = list(found)
    place = names.index(row.after) + 1 if row.after in found else len(names)
    return {name: row if name == row.name else found[name] for name in [*names[:place], row.name, *names[place:]]}


def problems() -> tuple[str, ...]:
    """Return which formats of other packages are ignored, and why."""
    return _found().problems


def readers() -> list[Format]:
    """Return the formats that are read."""
    return [entry for entry in _found().formats.values() if entry.reader is not None]


def others() -> list[Format]:
    """Return the formats that are not of `motionkit` itself."""
    return [entry for entry in _found().formats.values() if entry.name not in _found().ours]


def listed(*names: str, what: Literal["reader", "writer"] = "writer") -> list[Format]:
    """Return formats for a list: those of motionkit's that it has, and all others.

    Args:
        names: Formats of motionkit's, in the order of the list.
        what: What the others must have.
    """
    found = {name: FORMATS[name] for name in names}
    for entry in others():
        if (entry.reader if what == "reader" else entry.writer) is not None:
            found = _after(found, entry)
    return list(found.values())


def endings(*names: str) -> list[str]:
    """Return the endings of files in formats that are written, in the order of `listed`."""
    return list(dict.fromkeys(entry.suffix for entry in listed(*names)))


def settings() -> dict[str, Setting]:
    """Return the settings that formats need by name; several formats may have the same one."""
    return {one.name: one for entry in _found().formats.values() for one in entry.settings}


def kind_of(path: Path) -> str | None:
    """Return the name of the format that the ending of a file asks to write, or None for a folder.

    Of several endings the longest counts, so that a package may write ``.mine.npz``; of equal ones the first format.
    """
    written = [entry for entry in _found().formats.values() if entry.writer is not None and not entry.writer.named]
    name = path.name.lower()
    fitting = [entry for entry in written if name.endswith(entry.suffix) and name != entry.suffix]
    return max(fitting, key=lambda entry: len(entry.suffix)).name if fitting else None


def is_read(path: Path) -> bool:
    """Return whether the name of a file ends as those of a format that is read."""
    return any(entry.matches(path) for entry in readers())


def recognise(path: Path) -> Format | None:
    """Return the format of a file, or None for a file that holds no motion (another JSON, an array of statistics).

    Formats that look into a file are asked first, in the order of `FORMATS`, then those that take every file of their
    suffix. Only names and headers are read. A damaged file gets the format that its suffix suggests, whose reader
    raises the error that names the damage.
    """
    fitting = [entry for entry in readers() if entry.matches(path)]
    if not fitting:
        absent = packages.owner_of_format(path.suffix.lower())
        known = ", ".join(entry.summary for entry in readers())
        raise MotionkitError(
            f"{path} is in no format that is read here.",
            why=f"the package {absent} reads it, and is not installed."
            if absent
            else f"convert reads {known}, folders of them, and starter.",
            fix=plugins.INSTALL_FIX if absent else "",
        )
    first = sorted(fitting, key=lambda entry: not (entry.reader and entry.reader.claims))
    peek = Peek(path)
    return next((entry for entry in first if entry.claims(peek)), None)


def unknown(path: Path) -> MotionkitError:
    """Return the error for a file that is in none of the formats of its suffix."""
    return MotionkitError(
        f"{path} does not hold a motion of a known format.",
        why="; ".join(f"{entry.suffix}: {entry.summary}" for entry in readers() if entry.matches(path)) + ".",
        fix="write it again as one of these, with all of its keys or columns.",
    )


def read_clips(path: Path | str, options: ReadOptions | None = None) -> Sequence[Clip]:
    """Read a motion file of any known format.

    Args:
        path: The file.
        options: Facts that the file does not hold; see `motionkit.motion.ReadOptions`.

    Returns:
        Its clips; one for most formats. Motions are in metres, right-handed, Y up.

    Example:
        >>> import numpy as np
        >>> from motionkit.starter import generate
        >>> np.save("walk.npy", generate("walk", frames=40).joints)
        >>> (clip,) = read_clips("walk.npy")
        >>> clip.notes["format"], clip.motion.frames
        ('joint array', 40)
    """
    from motionkit.motion.clip import ReadOptions

    path = Path(path)
    if not path.is_file():
        raise MotionkitError(f"there is no file {path}.", fix="check the path.")
    if (motion_format := recognise(path)) is None:
        raise unknown(path)
    return motion_format.read(path, options or ReadOptions())
