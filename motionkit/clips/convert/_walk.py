"""Find motion files in folders, with the captions and splits beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from motionkit.clips.convert._generated import generated_texts
from motionkit.documents import read_json, read_text
from motionkit.errors import MotionkitError
from motionkit.formats._table import FORMATS, SUFFIXES, Format, recognise
from motionkit.motion.corpus._captions import Caption
from motionkit.motion.corpus._ids import SPLITS

_OWN = ("convert.json", "motions.json")
"""Files that motionkit writes beside motions."""

_LIMIT = 256 << 20
"""Largest convert.json (up to a kilobyte for each clip) and largest list of clips, in bytes."""


@dataclass(frozen=True)
class Found:
    """A motion file found in a folder.

    Attributes:
        path: The file.
        base: The folder that was given to find it in.
        format: Its format.
        texts: Its captions.
        texts_file: Its file of captions.
        splits: The splits that list it.
    """

    path: Path
    base: Path
    format: Format
    texts: tuple[Caption, ...] = ()
    texts_file: Path | None = None
    splits: tuple[str, ...] = ()


@dataclass
class Aside:
    """Files and folders that hold no motion to read; all are reported.

    Attributes:
        skipped: Files of a known ending that hold no motion, as statistics and settings do not.
        made: Folders that `convert` wrote; their files are skipped.
        locked: Files and folders that cannot be opened, with the error message of the system.
    """

    skipped: list[Path] = field(default_factory=list)
    made: list[Path] = field(default_factory=list)
    locked: dict[Path, str] = field(default_factory=dict)


def walk(top: Path, aside: Aside) -> Iterator[Found]:
    """Walk a folder; sub-folders with features, or with joints and their captions or splits, are read as such.

    A dangling link or a pipe counts as a file: its reader reports the error.

    Args:
        top: The folder.
        aside: Gets everything that is no motion.

    Raises:
        MotionkitError: The list of a split is no text.
    """
    waiting, seen = [top], set()
    while waiting:
        path = waiting.pop()
        try:
            if path.is_dir():
                state = path.stat()
                if (place := (state.st_dev, state.st_ino)) in seen:
                    continue  # a link to a parent folder would be followed without end
                seen.add(place)
                if path != top and _is_conversion(path):
                    aside.made.append(path)
                elif motions := _motions_of(path):
                    yield from (replace(entry, base=top) for entry in _dataset(path, motions))
                else:
                    inside = [
                        entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name not in _OWN
                    ]
                    waiting += sorted(inside, reverse=True)
            elif path.suffix.lower() in SUFFIXES:
                if (kind := recognise(path)) is None:
                    aside.skipped.append(path)
                else:
                    yield Found(path, top, kind)
        except OSError as error:
            aside.locked[path] = error.strerror or str(error)


def _motions_of(folder: Path) -> Path | None:
    """Return a dataset's folder of features, else its folder of joints if there are captions or splits."""
    if (features := folder / "new_joint_vecs").is_dir():
        return features
    lists = any((folder / f"{split}.txt").is_file() for split in SPLITS)
    joints = folder / "new_joints"
    return joints if joints.is_dir() and (lists or (folder / "texts").is_dir()) else None


def _is_conversion(folder: Path) -> bool:
    """Return whether `convert` wrote a folder."""
    try:
        record = read_json(folder / "convert.json", dict, limit=_LIMIT, surrogates=True)
    except MotionkitError:
        return False
    return {"schema", "to", "clips"} <= record.keys()


def _dataset(folder: Path, motions: Path) -> Iterator[Found]:
    """List the clips of a HumanML3D-layout folder, or of a folder made by ``motionkit generate``."""
    splits: dict[str, tuple[str, ...]] = {}
    for split in SPLITS:
        for key in dict.fromkeys(_lines(folder / f"{split}.txt")):
            splits[key] = (*splits.get(key, ()), split)
    texts = generated_texts(folder)
    kind = FORMATS["features" if motions.name == "new_joint_vecs" else "joints"]
    for path in sorted(path for path in motions.iterdir() if path.suffix == ".npy" and not path.name.startswith(".")):
        file = folder / "texts" / f"{path.stem}.txt"
        yield Found(
            path,
            folder,
            kind,
            texts.get(path.stem, ()),
            file if file.exists() else None,
            splits.get(path.stem, ()),
        )


def _lines(path: Path) -> list[str]:
    return read_text(path, limit=_LIMIT).split() if path.exists() else []
