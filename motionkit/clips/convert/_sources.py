"""Find the clips of a list of paths and give them ids that are unique and valid file names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from motionkit.clips.convert._file_source import FileSource
from motionkit.clips.convert._keys import shared_takes, unique_keys
from motionkit.clips.convert._locked import LockedSource
from motionkit.clips.convert._walk import Aside, Found, walk
from motionkit.errors import MotionkitError
from motionkit.formats._table import SUFFIXES, known, recognise
from motionkit.motion._clip import ReadOptions


@dataclass(frozen=True)
class Opened:
    """Result of `open_sources`.

    Attributes:
        sources: The clips, in a fixed order; then files and folders that cannot be opened, whose `load` raises.
        skipped: Files of a known ending that hold no motion, as statistics and settings do not.
        made: Folders inside the given ones that `convert` wrote; skipped, because they hold the same motions again.
        twins: Links to a file that is among the sources under another name, with that name.
    """

    sources: tuple[FileSource | LockedSource, ...]
    skipped: tuple[Path, ...]
    made: tuple[Path, ...] = ()
    twins: tuple[tuple[Path, Path], ...] = ()


def open_sources(paths: Iterable[Path], options: ReadOptions | None = None) -> Opened:
    """Find motion files: each path is a file or a folder, searched with its sub-folders.

    A folder in HumanML3D's layout, or one that `motionkit generate` made, gives its features with their captions and
    splits; its joints are the same motions again and are not taken twice. Nor are folders that `convert` wrote, where
    there is anything else in the one that was given; give them by name to read them. Ids are file names without ending;
    see `unique_keys`.

    Raises:
        MotionkitError: A path is missing or in no format that is read here, or a folder holds no motion.
    """
    options = options or ReadOptions()
    found: dict[Path, Found] = {}
    aside = Aside()
    twins: dict[Path, Path] = {}
    for path in paths:
        for entry in _entries(path, aside):
            first = found.setdefault(Path(os.path.realpath(entry.path)), entry)
            if first.path.absolute() != entry.path.absolute():
                twins[entry.path] = first.path
    files = [(entry.path, entry.base) for entry in found.values()]
    keys = unique_keys([*files, *((path, path.parent) for path in aside.locked)])
    groups = shared_takes([path for path, _ in files], keys[: len(files)])
    sources = [
        FileSource(entry.path, key, entry.format.name, options, entry.texts, entry.texts_file, entry.splits, group)
        for entry, key, group in zip(found.values(), keys, groups, strict=False)
    ]
    locked = [
        LockedSource(path, key, reason)
        for (path, reason), key in zip(aside.locked.items(), keys[len(files) :], strict=True)
    ]
    return Opened((*sources, *locked), tuple(aside.skipped), tuple(aside.made), tuple(twins.items()))


def _entries(path: Path, aside: Aside) -> Sequence[Found]:
    """Return the motion files of a path (MotionkitError if there are none)."""
    if path.is_dir():
        before = len(aside.locked)
        entries = _in_folder(path, aside)
        if not entries and len(aside.locked) == before:
            raise MotionkitError(
                f"there is no motion in {path} or below it.",
                why=f"files that are read: {', '.join(sorted(SUFFIXES))}.",
            )
        return entries
    if not path.exists():
        raise MotionkitError(f"there is no {path}.", fix="give motion files, folders of them, or the word starter.")
    if (kind := recognise(path)) is None:
        raise MotionkitError(f"{path} holds no motion that is known here.", why=known(path.suffix.lower()))
    return [Found(path, path.parent, kind)]


def _in_folder(path: Path, aside: Aside) -> list[Found]:
    """Return the motion files of a folder; output of `convert` is skipped unless there is nothing else."""
    before = len(aside.made)
    if found := list(walk(path, aside)):
        return found
    ours = aside.made[before:]
    del aside.made[before:]
    return [entry for folder in ours for entry in walk(folder, aside)]
