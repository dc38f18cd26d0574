"""Finding motion files in folders, with the captions and splits that lie beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from motionkit.motion.convert._generated import generated_texts
from motionkit.motion.corpus._captions import Caption
from motionkit.motion.corpus._splits import SPLITS
from motionkit.motion.formats._table import FORMATS, SUFFIXES, Format, recognise

_OWN = ("convert.json", "motions.json")
"""What motionkit itself leaves beside motions."""


@dataclass(frozen=True)
class Found:
    """A motion file that was come upon.

    Attributes:
        path: The file.
        base: The folder that was given to find it in.
        format: Its format.
        texts: Captions that are known of it.
        texts_file: Its file of captions.
        splits: The splits that list it.
    """

    path: Path
    base: Path
    format: Format
    texts: tuple[Caption, ...] = ()
    texts_file: Path | None = None
    splits: tuple[str, ...] = ()


def walk(top: Path, skipped: list[Path], made: list[Path]) -> Iterator[Found]:
    """Walk a folder; sub-folders with features are read as such.

    Args:
        top: The folder.
        skipped: Takes files of a known ending that hold no motion.
        made: Takes folders that `convert` wrote; what is in them is passed over.
    """
    waiting, seen = [top], set()
    while waiting:
        path = waiting.pop()
        if path.is_dir():
            state = path.stat()
            if (place := (state.st_dev, state.st_ino)) in seen:
                continue  # a link that leads back up would be followed for ever
            seen.add(place)
            if path != top and _is_conversion(path):
                made.append(path)
            elif (path / "new_joint_vecs").is_dir():
                yield from (replace(entry, base=top) for entry in _feature_folder(path))
            else:
                inside = (
                    entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name not in _OWN
                )
                waiting += sorted(inside, reverse=True)
        elif path.suffix.lower() in SUFFIXES and path.is_file():
            if (kind := recognise(path)) is None:
                skipped.append(path)
            else:
                yield Found(path, top, kind)


def _is_conversion(folder: Path) -> bool:
    """Whether `convert` wrote a folder."""
    try:
        record = json.loads((folder / "convert.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"schema", "to", "clips"} <= record.keys()


def _feature_folder(folder: Path) -> Iterator[Found]:
    """List the clips of a HumanML3D-layout folder, or of a folder made by ``motionkit generate``."""
    splits: dict[str, tuple[str, ...]] = {}
    for split in SPLITS:
        for key in dict.fromkeys(_lines(folder / f"{split}.txt")):
            splits[key] = (*splits.get(key, ()), split)
    texts = generated_texts(folder)
    for path in sorted((folder / "new_joint_vecs").glob("*.npy")):
        file = folder / "texts" / f"{path.stem}.txt"
        yield Found(
            path,
            folder,
            FORMATS["features"],
            texts.get(path.stem, ()),
            file if file.is_file() else None,
            splits.get(path.stem, ()),
        )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").split() if path.is_file() else []
