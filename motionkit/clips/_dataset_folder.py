"""The clips of a dataset folder: features or joints with the captions and splits beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit.documents import read_json, read_text
from motionkit.errors import MotionkitError
from motionkit.formats._table import FORMATS, Format
from motionkit.motion.corpus._captions import Caption
from motionkit.motion.corpus._ids import SPLITS
from motionkit.text import Prompt

LIMIT = 256 << 20
"""Largest convert.json (up to a kilobyte for each clip), motions.json and list of clips, in bytes."""


@dataclass(frozen=True)
class FoundFile:
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


def motions_of(folder: Path) -> Path | None:
    """Return a dataset's folder of features, else its folder of joints if there are captions or splits."""
    if (features := folder / "new_joint_vecs").is_dir():
        return features
    lists = any((folder / f"{split}.txt").is_file() for split in SPLITS)
    joints = folder / "new_joints"
    return joints if joints.is_dir() and (lists or (folder / "texts").is_dir()) else None


def dataset_files(folder: Path, motions: Path, base: Path) -> Iterator[FoundFile]:
    """List the clips of a HumanML3D-layout folder, or of a folder made by ``motionkit generate``.

    Args:
        folder: The folder.
        motions: Its sub-folder with the motions, see `motions_of`.
        base: The folder that was given to find it in.

    Raises:
        MotionkitError: The list of a split is no text.
    """
    splits: dict[str, tuple[str, ...]] = {}
    for split in SPLITS:
        for key in dict.fromkeys(_lines(folder / f"{split}.txt")):
            splits[key] = (*splits.get(key, ()), split)
    texts = generated_texts(folder)
    kind = FORMATS["features" if motions.name == "new_joint_vecs" else "joints"]
    for path in sorted(path for path in motions.iterdir() if path.suffix == ".npy" and not path.name.startswith(".")):
        file = folder / "texts" / f"{path.stem}.txt"
        own = file if file.exists() else None
        yield FoundFile(path, base, kind, texts.get(path.stem, ()), own, splits.get(path.stem, ()))


def generated_texts(folder: Path) -> Mapping[str, tuple[Caption, ...]]:
    """Return the captions of each clip of a folder that ``generate`` made: of the whole clip, then of its segments."""
    try:
        document = read_json(folder / "motions.json", dict, limit=LIMIT)
        fps = float(document["fps"])
        return {str(entry["id"]): _segment_captions(entry["segments"], fps) for entry in document["motions"]}
    except (ValueError, KeyError, TypeError, ZeroDivisionError, MotionkitError):
        return {}


def _segment_captions(segments: Sequence[Mapping[str, Any]], fps: float) -> tuple[Caption, ...]:
    spans = [(str(part["text"]), int(part["start"]), int(part["end"])) for part in segments]
    prompt = Prompt(tuple(text for text, _, _ in spans), tuple(end - start for _, start, end in spans))
    parts = [Caption(text, (), start / fps, end / fps) for text, start, end in spans] if len(spans) > 1 else []
    return (Caption(prompt.text), *parts)


def _lines(path: Path) -> list[str]:
    return read_text(path, limit=LIMIT).split() if path.exists() else []
