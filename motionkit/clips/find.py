"""Find the clips of a list of paths, and give them ids that are unique and valid file names.

`open_sources` searches folders; one in HumanML3D's layout, or one that ``motionkit generate`` made, is read with its
captions and splits (`dataset_files`). Files of the same take share a group, so that they get the same split.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.clips.bodies import Body, vote
from motionkit.clips.sources import FileSource, LockedSource
from motionkit.documents import read_json, read_text
from motionkit.errors import MotionkitError
from motionkit.formats.format import Format
from motionkit.formats.table import FORMATS, is_read, readers, recognise, unknown
from motionkit.motion.clip import ClipSource, ReadOptions
from motionkit.motion.corpus.captions import Caption
from motionkit.motion.corpus.ids import SPLITS, plain_id
from motionkit.text import Prompt

_LIMIT = 256 << 20
"""Largest convert.json (up to a kilobyte for each clip), motions.json and list of clips, in bytes."""

_OWN = ("convert.json", "motions.json")
"""Files that motionkit writes next to motions."""

_FLAGS = {
    "up": "--up",
    "unit": "--units",
    "fps": "--source-fps",
    "rot6d_columns": "--rot6d-columns",
    "hierarchy": "--hierarchy",
    "offsets": "--offsets",
    "smpl_model": "--smpl-model",
    "joint_map": "--joint-map",
    "clip": "--clip",
}
"""Reading options and the flags of the command line that set them."""

_PART = re.compile(r"_p\d+$")
"""Suffix of the parts of a long clip."""


@dataclass(frozen=True)
class FoundFile:
    """A motion file found in a folder."""

    path: Path  # The file
    base: Path  # The folder that was given to find it in
    format: Format  # Its format
    texts: tuple[Caption, ...] = ()  # Its captions
    texts_file: Path | None = None  # Its file of captions
    splits: tuple[str, ...] = ()  # The splits that list it


@dataclass
class Opened:
    """Result of `open_sources`."""

    # The clips, in a fixed order; then files and folders that cannot be opened, whose `load` raises.
    sources: tuple[ClipSource, ...] = ()
    bodies: tuple[Body, ...] = ()  # How the BVH and GLB files of each skeleton are read
    # Files with a known suffix that hold no motion, such as statistics and settings.
    skipped: list[Path] = field(default_factory=list)
    # Folders inside the given ones that `convert` wrote; skipped, because they hold the same motions again.
    made: list[Path] = field(default_factory=list)
    # Files inside the given folders that are skipped for want of a setting, such as a program that reads them, by
    # what is said of them (`motionkit.formats.Setting.needed`).
    unread: dict[str, list[Path]] = field(default_factory=dict)


def open_sources(paths: Iterable[Path], options: ReadOptions | None = None) -> Opened:
    """Find motion files: each path is a file or a folder, searched with its sub-folders.

    A folder in HumanML3D's layout, or one that `motionkit generate` made, gives its features with their captions and
    splits; its joints are the same motions again and are skipped. A file that several paths or links lead to is read
    once. Unit and direction of up of BVH and GLB files are decided once for each skeleton (`vote`). Folders that
    `convert` wrote are skipped if the given folder holds anything else; give them by name to read them. Ids are file
    names without suffix; see `unique_keys`.

    Example:
        >>> import numpy as np
        >>> from motionkit.starter import Order, perform
        >>> np.save("wave.npy", perform([Order("wave/right", frames=60, seed=0)], fps=20.0)[0].joints)
        >>> [(source.key, source.format) for source in open_sources([Path("wave.npy")]).sources]
        [('wave', 'joints')]
    """
    options = options or ReadOptions()
    opened = Opened()
    by_path: dict[Path, FoundFile] = {}
    locked: dict[Path, str] = {}
    for path in paths:
        for file in _files_of(path, opened, locked, options.settings):
            by_path.setdefault(Path(os.path.realpath(file.path)), file)
    for form in {file.format.name: file.format for file in by_path.values()}.values():
        form.prepare([file.path for file in by_path.values() if file.format.name == form.name], options)
    files = [(file.path, file.base) for file in by_path.values()]
    keys = unique_keys([*files, *((path, path.parent) for path in locked)])
    groups = shared_takes([path for path, _ in files], keys[: len(files)])
    sources, opened.bodies = vote(
        [
            FileSource(file.path, key, file.format.name, options, file.texts, file.texts_file, file.splits, group)
            for file, key, group in zip(by_path.values(), keys, groups, strict=False)
        ]
    )
    opened.sources = (
        *sources,
        *(
            LockedSource(path, key, reason)
            for (path, reason), key in zip(locked.items(), keys[len(files) :], strict=True)
        ),
    )
    return opened


def refuse_idle(options: ReadOptions, sources: Iterable[ClipSource]) -> None:
    """Refuse reading options that no reader of these sources uses, and files that do not exist."""
    names = {source.format for source in sources if isinstance(source, FileSource)}
    used = {option for form in readers() if form.name in names and form.reader for option in form.reader.options}
    plain = ReadOptions()
    for name, flag in _FLAGS.items():
        value = getattr(options, name)
        if value == getattr(plain, name):
            continue
        if name not in used:
            formats = ", ".join(form.summary for form in readers() if form.reader and name in form.reader.options)
            raise MotionkitError(
                f"{flag} {value} does not act on these inputs.", why=f"it is for {formats}.", fix="leave it out."
            )
        if name in ("hierarchy", "offsets", "smpl_model") and not value.exists():
            raise MotionkitError(f"{flag} {value}: there is no such file.", fix="check the path.")


def _files_of(path: Path, opened: Opened, locked: dict[Path, str], settings: Mapping[str, str]) -> list[FoundFile]:
    """Return the motion files of a path."""
    if not path.is_dir():
        if not path.exists():
            raise MotionkitError(f"there is no {path}.", fix="give motion files, folders of them, or the word starter.")
        if (kind := recognise(path)) is None:
            raise unknown(path)
        return [FoundFile(path, path.parent, kind)]
    before = len(opened.made), len(locked)
    files = list(_search(path, opened, locked))
    if not files:
        # The folder holds only output of `convert`, so the user means to read that.
        made = opened.made[before[0] :]
        del opened.made[before[0] :]
        files = [file for folder in made for file in _search(folder, opened, locked)]
    if lacking := [file for file in files if file.format.lacks(settings)]:
        files = [file for file in files if file not in lacking]
        for file in lacking:
            opened.unread.setdefault(file.format.lacks(settings), []).append(file.path)
        if not files:
            lacking[0].format.require(settings)
    if not files and len(locked) == before[1]:
        suffixes = sorted({ending for form in readers() for ending in form.suffixes})
        raise MotionkitError(
            f"there is no motion in {path} or below it.", why=f"files that are read: {', '.join(suffixes)}."
        )
    return files


def _search(top: Path, opened: Opened, locked: dict[Path, str]) -> Iterator[FoundFile]:
    """Walk a folder; sub-folders with features, or with joints and their captions or splits, are read as datasets.

    A dangling link or a pipe counts as a file: its reader reports the error. Files without motion go into `opened`,
    those that cannot be opened into `locked` with the error message of the system.
    """
    waiting, seen = [top], set()
    while waiting:
        path = waiting.pop()
        try:
            if path.is_dir():
                state = path.stat()
                if (place := (state.st_dev, state.st_ino)) in seen:
                    continue  # a link to a parent folder would be followed forever
                seen.add(place)
                if path != top and _is_conversion(path):
                    opened.made.append(path)
                elif motions := motions_of(path):
                    yield from dataset_files(path, motions, top)
                else:
                    inside = [
                        entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name not in _OWN
                    ]
                    waiting += sorted(inside, reverse=True)
            elif is_read(path):
                if (kind := recognise(path)) is None:
                    opened.skipped.append(path)
                else:
                    yield FoundFile(path, top, kind)
        except OSError as error:
            locked[path] = error.strerror or str(error)


def _is_conversion(folder: Path) -> bool:
    """Return whether `convert` wrote a folder."""
    try:
        record = read_json(folder / "convert.json", dict, limit=_LIMIT, surrogates=True)
    except MotionkitError:
        return False
    return {"schema", "to", "clips"} <= record.keys()


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
        folder: The dataset.
        motions: Its sub-folder with the motions, see `motions_of`.
        base: The folder that was given to find it in.
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
        document = read_json(folder / "motions.json", dict, limit=_LIMIT)
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
    lines = read_text(path, limit=_LIMIT).splitlines() if path.exists() else []
    return [line.strip() for line in lines if line.strip()]


def unique_keys(files: Sequence[tuple[Path, Path]]) -> list[str]:
    """Return an id per file; ids differ by more than case, because some file systems ignore case.

    An id is the file's name without suffix. If several files have the same one, the folders below the given folder are
    prepended, then the name of the given folder, and if they are still the same, a number is added.

    Args:
        files: Each file with the given folder that it was found in (its parent for a file that was given itself).
    """
    names = [
        (plain_id(file.stem), plain_id("_".join(inside)), plain_id("_".join((base.absolute().name, *inside))))
        for file, base, inside in ((file, base, _inside(file, base)) for file, base in files)
    ]
    counts = [Counter(name[level].lower() for name in names) for level in range(3)]
    keys: list[str] = []
    used: set[str] = set()
    for choices in names:
        key = next((name for name, count in zip(choices, counts, strict=True) if count[name.lower()] == 1), choices[2])
        plain, number = key, 2
        while key.lower() in used:
            key, number = plain_id(f"{plain}_{number}"), number + 1
        used.add(key.lower())
        keys.append(key)
    return keys


def shared_takes(files: Sequence[Path], keys: Sequence[str]) -> list[str]:
    """Return a group per file; files of one take share it: a clip, its mirror image ``M...``, its parts ``..._p0``.

    All clips of a group get the same split, whichever folders they come from. A group is named after its first file;
    a file that is alone has none.
    """
    present = set(files)
    takes = []
    for file in files:
        stem = file.stem
        if stem.startswith("M") and file.with_name(stem[1:] + file.suffix) in present:
            stem = stem[1:]
        takes.append(file.with_name(_PART.sub("", stem) or stem))
    counts, first = Counter(takes), dict(zip(reversed(takes), reversed(keys), strict=True))
    return [first[take] if counts[take] > 1 else "" for take in takes]


def _inside(file: Path, base: Path) -> tuple[str, ...]:
    # Paths as given, not resolved: a link may lead to another folder.
    return file.relative_to(base).with_suffix("").parts
