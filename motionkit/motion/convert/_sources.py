"""The clips that a list of paths stands for, under ids that are unique and fit for file names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion.convert._keys import shared_takes, unique_keys
from motionkit.motion.corpus._captions import Caption, read_captions
from motionkit.motion.corpus._splits import SPLITS
from motionkit.motion.formats._table import FORMATS, SUFFIXES, Format, known, recognise
from motionkit.text import Prompt

_OWN = ("convert.json", "motions.json")
"""What motionkit itself leaves beside motions."""


@dataclass(frozen=True)
class FileSource:
    """A motion file.

    Attributes:
        path: The file.
        key: Clip id.
        format: Name of its format.
        options: What the reader must be told.
        texts: Captions known from elsewhere in its folder.
        texts_file: HumanML3D texts file with its captions, read with the clip.
        splits: Splits of its folder that list it, in the order of `SPLITS`. More than one is a leak; the clip then
            counts as the last of them, so that nothing held out is trained on, and carries a warning.
        group: What its clips share with other files of the same take; empty where there are none.
    """

    path: Path
    key: str
    format: str
    options: ReadOptions = field(default_factory=ReadOptions)
    texts: tuple[Caption, ...] = ()
    texts_file: Path | None = None
    splits: tuple[str, ...] = ()
    group: str = ""

    @property
    def origin(self) -> str:
        """Return the path."""
        return str(self.path)

    def fingerprint(self) -> str:
        """Return what changes with anything that is read for the clips; empty when the file is gone."""
        beside = [self.path.parent / name for name in FORMATS[self.format].tables]
        given = (self.texts_file, self.options.hierarchy, self.options.offsets, self.options.smpl_model)
        files = [*beside, *(path for path in given if path is not None)]
        if (own := _state(self.path)) == "":
            return ""
        said = f"{self.path.resolve()} {self.format} {self.texts} {self.splits} {self.group}"
        words = [own, *map(_state, files), said]
        return hashlib.sha256("\n".join(words).encode(errors="backslashreplace")).hexdigest()

    def load(self) -> Sequence[Clip]:
        """Read the file; the notes carry its hash, which outputs keep as their origin."""
        clips = FORMATS[self.format].read(self.path, self.options)
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        texts = self.texts if self.texts_file is None else read_captions(self.texts_file)
        whole = tuple(caption for caption in texts if caption.whole)
        timed = tuple(caption for caption in texts if not caption.whole)
        several = self.splits if len(self.splits) > 1 else ()
        leak = (f"its folder lists it in {', '.join(several)}; it counts as {several[-1]}.",) if several else ()
        return [
            replace(
                clip,
                captions=clip.captions or whole,
                timed=clip.timed or timed,
                split=clip.split or "".join(self.splits[-1:]),
                splits=clip.splits or several,
                group=clip.group or self.group,
                warnings=(*clip.warnings, *leak),
                notes={**clip.notes, "sha256": digest},
            )
            for clip in clips
        ]


def _state(path: Path) -> str:
    """Return size and time of a file, or of all files of a folder; empty for what is not there."""
    try:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        return " ".join(f"{state.st_size}-{state.st_mtime_ns}" for state in map(Path.stat, files))
    except OSError:
        return ""


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
    splits; its joints are the same motions again and are not taken twice. Nor are folders inside a given one that
    `convert` wrote; give them by name to read them. Ids are file names without ending; see `unique_keys`.

    Raises:
        MotionkitError: A path is missing or in no format that is read here, or a folder holds no motion.
    """
    options = options or ReadOptions()
    found: dict[Path, _Found] = {}
    skipped: list[Path] = []
    made: list[Path] = []
    for path in paths:
        if path.is_dir():
            entries = list(_in_folder(path, skipped, made))
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
            found.setdefault(path.resolve(), _Found(path, path.parent, kind))
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


@dataclass(frozen=True)
class _Found:
    path: Path
    base: Path
    format: Format
    texts: tuple[Caption, ...] = ()
    texts_file: Path | None = None
    splits: tuple[str, ...] = ()


def _in_folder(top: Path, skipped: list[Path], made: list[Path]) -> Iterator[_Found]:
    """Walk a folder; sub-folders with features are read as such."""
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
                yield _Found(path, top, kind)


def _is_conversion(folder: Path) -> bool:
    """Whether `convert` wrote a folder."""
    try:
        record = json.loads((folder / "convert.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"schema", "to", "clips"} <= record.keys()


def _feature_folder(folder: Path) -> Iterator[_Found]:
    """List the clips of a HumanML3D-layout folder, or of a folder made by ``motionkit generate``."""
    splits: dict[str, tuple[str, ...]] = {}
    for split in SPLITS:
        for key in dict.fromkeys(_lines(folder / f"{split}.txt")):
            splits[key] = (*splits.get(key, ()), split)
    texts = generated_texts(folder)
    for path in sorted((folder / "new_joint_vecs").glob("*.npy")):
        file = folder / "texts" / f"{path.stem}.txt"
        yield _Found(
            path,
            folder,
            FORMATS["features"],
            texts.get(path.stem, ()),
            file if file.is_file() else None,
            splits.get(path.stem, ()),
        )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").split() if path.is_file() else []


def generated_texts(folder: Path) -> Mapping[str, tuple[Caption, ...]]:
    """Return the texts of a folder made by ``motionkit generate``: of each clip the whole, then its timed segments."""
    try:
        document = json.loads((folder / "motions.json").read_text(encoding="utf-8"))
        fps = float(document["fps"])
        return {str(entry["id"]): _segment_captions(entry["segments"], fps) for entry in document["motions"]}
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, MotionkitError):
        return {}


def _segment_captions(segments: Sequence[Mapping[str, Any]], fps: float) -> tuple[Caption, ...]:
    spans = [(str(part["text"]), int(part["start"]), int(part["end"])) for part in segments]
    prompt = Prompt(tuple(text for text, _, _ in spans), tuple(end - start for _, start, end in spans))
    parts = [Caption(text, (), start / fps, end / fps) for text, start, end in spans] if len(spans) > 1 else []
    return (Caption(prompt.text), *parts)
