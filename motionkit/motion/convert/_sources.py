"""The clips that a list of paths stands for, under ids that are unique and fit for file names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.motion._clip import ReadOptions
from motionkit.motion.convert._file_source import FileSource
from motionkit.motion.convert._keys import shared_takes, unique_keys
from motionkit.motion.convert._walk import Found, walk
from motionkit.motion.formats._table import SUFFIXES, known, recognise


@dataclass(frozen=True)
class Opened:
    """What a list of paths stands for.

    Attributes:
        sources: The clips, in a fixed order.
        skipped: Files of a known ending that hold no motion, as statistics and settings do not.
        made: Folders inside the given ones that `convert` wrote; they hold the same motions again and were passed over.
    """

    sources: tuple[FileSource, ...]
    skipped: tuple[Path, ...]
    made: tuple[Path, ...] = ()


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
    skipped: list[Path] = []
    made: list[Path] = []
    for path in paths:
        if path.is_dir():
            entries = _in_folder(path, skipped, made)
            if not entries:
                raise MotionkitError(
                    f"there is no motion in {path} or below it.",
                    why=f"files that are read: {', '.join(sorted(SUFFIXES))}.",
                )
            for entry in entries:
                found.setdefault(entry.path.resolve(), entry)
        elif path.exists():
            kind = recognise(path)
            if kind is None:
                raise MotionkitError(f"{path} holds no motion that is known here.", why=known(path.suffix.lower()))
            found.setdefault(path.resolve(), Found(path, path.parent, kind))
        else:
            raise MotionkitError(f"there is no {path}.", fix="give motion files, folders of them, or the word starter.")
    files = [(entry.path, entry.base) for entry in found.values()]
    keys = unique_keys(files)
    groups = shared_takes([path for path, _ in files], keys)
    sources = tuple(
        FileSource(entry.path, key, entry.format.name, options, entry.texts, entry.texts_file, entry.splits, group)
        for entry, key, group in zip(found.values(), keys, groups, strict=True)
    )
    return Opened(sources, tuple(skipped), tuple(made))


def _in_folder(path: Path, skipped: list[Path], made: list[Path]) -> list[Found]:
    """Return what is in a folder: what `convert` made of it is passed over, unless it is all there is."""
    ours: list[Path] = []
    found = list(walk(path, skipped, ours))
    if found:
        made += ours
        return found
    return [entry for folder in ours for entry in walk(folder, skipped, made)]
