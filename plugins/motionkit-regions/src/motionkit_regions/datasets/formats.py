"""Formats of regions: COCO's referring expressions, Sa2VA's finetune file, a file with a region per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import weights
from motionkit.documents import open_file, parse_json, read_json
from motionkit.errors import MotionkitError
from motionkit_regions.datasets.places import fingerprint, one_file, picture_folder, require_keys
from motionkit_regions.datasets.rows import (
    BAD_ROW,
    LONGEST_ROW,
    NO_IMAGE,
    NO_MASK,
    Part,
    Record,
    UnusableError,
    split_of,
)

WANTED_FINETUNE = ("image", "mask", "text")

WANTED_LINES = ("image", "mask", "caption")

_LIMIT = 4 << 30

_FINETUNE_LIMIT = 2 << 30

_WANTED = "images and annotations with segmentations; sentences of the annotations in refs"
_CONVERT = (
    'if you trust the file, make it JSON: python -c "import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], '
    "'rb'), encoding='latin1'), open(sys.argv[2], 'w'))\" 'refs(unc).p' 'refs(unc).json'"
)


@dataclass(frozen=True)
class _Ref:
    """Sentences about an annotation."""

    annotation: object
    image: object
    sentences: tuple[object, ...]
    split: str


class Coco:
    """COCO's annotations with referring expressions; see `motionkit_regions.datasets.rows.Source`.

    Each sentence is a region.
    """

    inputs: Mapping[str, str] = {}

    def __init__(self, path: Path, refs: str, images: Path | None) -> None:
        instances = one_file(path, ("instances*.json", "annotations*.json", "*.json"), "instances.json")
        self.place = str(path)
        content = read_json(instances, dict, limit=_LIMIT, bulk=True)
        tables = [content.get(name) for name in ("images", "annotations")]
        if not all(isinstance(table, list) and table for table in tables):
            raise MotionkitError(
                f"{instances} is not a COCO file with images and annotations.",
                why=f"found were {', '.join(map(str, list(content)[:8])) or 'nothing'}; wanted are {_WANTED}.",
            )
        self._files = {row["id"]: row.get("file_name") for row in _rows(content["images"])}
        self._annotations = {row["id"]: row for row in _rows(content["annotations"])}
        documents = [instances]
        refs_table: Any = content.get("refs")
        if refs_table is None and path.is_dir() and (file := _refs_file(path, refs, instances)) is not None:
            documents.append(file)
            refs_table = _read_refs(file)
        self._refs = list(_refs(refs_table) if refs_table is not None else _from_annotations(self._annotations))
        if not self._refs:
            raise MotionkitError(
                f"{path} has no sentences.", why=f"wanted are {_WANTED}.",
                fix="put refs.json beside instances.json, or sentences into the annotations; see docs/region-data.md.",
            )  # fmt: skip
        names = [name for name in self._files.values() if isinstance(name, str) and name]
        self._folder = picture_folder(instances.parent, images, names[0] if names else "")
        used = [self._files.get(_key(self._image_of(ref))) for ref in self._refs]
        self.mark = fingerprint(
            documents, [self._folder / name for name in used if isinstance(name, str)], self._folder
        )

    def __len__(self) -> int:
        return len(self._refs)

    def where(self, number: int) -> str:
        """See `Source.where`."""
        return f"the sentences of annotation {self._refs[number].annotation}"

    def record(self, number: int) -> Record:
        """See `Source.record`."""
        ref = self._refs[number]
        annotation = self._annotations.get(_key(ref.annotation))
        if annotation is None:
            raise UnusableError(NO_MASK, "there is no such annotation")
        name = self._files.get(_key(self._image_of(ref)))
        if not isinstance(name, str) or not name:
            raise UnusableError(NO_IMAGE, "there is no such image")
        mask = annotation.get("segmentation")
        parts = tuple(Part(mask, _text(sentence)) for sentence in ref.sentences)
        return Record(self.where(number), self._folder / name, parts, ref.split)

    def _image_of(self, ref: _Ref) -> object:
        return ref.image if ref.image is not None else self._annotations.get(_key(ref.annotation), {}).get("image_id")


def _key(value: object) -> object:
    """Return an id that can be a key; None for any other value."""
    return value if isinstance(value, (int, str)) else None


def _rows(table: list[Any]) -> Iterator[Mapping[str, Any]]:
    return (row for row in table if isinstance(row, Mapping) and isinstance(row.get("id"), (int, str)))


def _text(sentence: object) -> object:
    """Return the text of a sentence: itself, or REFER's entry sent (lower case) or raw."""
    return (sentence.get("sent") or sentence.get("raw")) if isinstance(sentence, Mapping) else sentence


def _refs(table: object) -> Iterator[_Ref]:
    for row in table if isinstance(table, list) else ():
        if isinstance(row, Mapping):
            sentences = row.get("sentences")
            texts = tuple(sentences) if isinstance(sentences, list) else ()
            yield _Ref(row.get("ann_id"), row.get("image_id"), texts or (None,), split_of(row.get("split")))


def _from_annotations(annotations: Mapping[object, Mapping[str, Any]]) -> Iterator[_Ref]:
    """Yield the sentences in annotations."""
    for key, annotation in annotations.items():
        texts = next(
            (annotation[name] for name in ("sentences", "expressions", "caption") if annotation.get(name)), None
        )
        if texts is not None:
            listed = tuple(texts) if isinstance(texts, list) else (texts,)
            yield _Ref(key, annotation.get("image_id"), listed, split_of(annotation.get("split")))


def _refs_file(folder: Path, part: str, instances: Path) -> Path | None:
    there = [path for path in folder.iterdir() if path.name.startswith("refs") and path != instances]
    if not any(part in path.name for path in there):
        if part:
            names = ", ".join(sorted(path.name for path in there)) or "no file refs*"
            raise MotionkitError(f"no refs file of {folder} has {part} in its name.", why=f"there is {names}.")
        return None
    return one_file(folder, ("refs*.json", "refs*.p"), "refs file", part=part)


def _read_refs(file: Path) -> list[Any]:
    """Read a refs file; a pickle is read without running it, which is possible for binary ones of plain values."""
    if file.suffix == ".json":
        return read_json(file, list, limit=_LIMIT, bulk=True)
    try:
        refs = weights.read(file)
    except MotionkitError as error:
        raise MotionkitError(
            f"{file} is a pickle that is not opened.", why="a pickle is a program, and may do anything.", fix=_CONVERT
        ) from error
    if not isinstance(refs, list):
        raise MotionkitError(f"{file} holds no list of refs.")
    return refs


class Finetune:
    """Sa2VA's finetune file; see `motionkit_regions.datasets.rows.Source`.

    It is a list of ``{"image", "mask": [polygons of each region], "text": [of each region]}``.
    """

    inputs: Mapping[str, str] = {}

    def __init__(self, path: Path, images: Path | None) -> None:
        self.place = str(path)
        self._rows = read_json(path, list, limit=_FINETUNE_LIMIT, bulk=True)
        rows = [row for row in self._rows if isinstance(row, Mapping)]
        require_keys(rows, WANTED_FINETUNE, path, row="row", none="no objects")
        names = [row["image"] for row in rows if isinstance(row.get("image"), str) and row["image"]]
        self._folder = picture_folder(path.parent, images, names[0] if names else "")
        self.mark = fingerprint([path], [self._folder / name for name in names], self._folder)

    def __len__(self) -> int:
        return len(self._rows)

    def where(self, number: int) -> str:
        """See `Source.where`."""
        return f"row {number}"

    def record(self, number: int) -> Record:
        """See `Source.record`."""
        row = self._rows[number]
        if not isinstance(row, Mapping):
            raise UnusableError(BAD_ROW, f"a {type(row).__name__}")
        image, masks, texts = (row.get(name) for name in WANTED_FINETUNE)
        if not isinstance(image, str) or not image:
            raise UnusableError(NO_IMAGE, "the row names none")
        if not masks:
            raise UnusableError(NO_MASK)
        if not isinstance(masks, list) or not isinstance(texts, list) or len(masks) != len(texts):
            counts = [len(value) if isinstance(value, list) else "no list of" for value in (masks, texts)]
            raise UnusableError(BAD_ROW, f"{counts[0]} masks and {counts[1]} texts")
        parts = tuple(Part(mask, text) for mask, text in zip(masks, texts, strict=True))
        return Record(self.where(number), self._folder / image, parts, split_of(row.get("split")))


class Lines:
    """A file with a region per line; see `motionkit_regions.datasets.rows.Source`.

    A line is ``{"image": "a.jpg", "mask": "a.png", "caption": "a red cup"}``. The offsets of the lines are kept, not
    the lines.
    """

    inputs: Mapping[str, str] = {}

    def __init__(self, path: Path) -> None:
        self.place, self._path, self._root = str(path), path, path.parent
        self._lines: list[tuple[int, int, int]] = []  # first byte, bytes, number from 1
        at = 0
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    self._lines.append((at, len(line), number))
                at += len(line)
        if not self._lines:
            raise MotionkitError(f"{path} is empty.", fix='a line is {"image": ..., "mask": ..., "caption": ...}.')
        rows = [self._try(number) for number in range(len(self._lines))]
        require_keys(rows, WANTED_LINES, path, row="line", none="no JSON objects")
        names = [row[key] for row in rows for key in ("image", "mask") if isinstance(row.get(key), str)]
        self.mark = fingerprint([path], [self._root / name for name in names], self._root)

    def __len__(self) -> int:
        return len(self._lines)

    def where(self, number: int) -> str:
        """See `Source.where`."""
        return f"line {self._lines[number][2]}"

    def record(self, number: int) -> Record:
        """See `Source.record`."""
        row = self._row(number)
        image, mask = row.get("image"), row.get("mask")
        if not isinstance(image, str) or not image:
            raise UnusableError(NO_IMAGE, "the line names none")
        shape = self._root / mask if isinstance(mask, str) and mask else mask
        return Record(
            self.where(number), self._root / image, (Part(shape, row.get("caption")),), split_of(row.get("split"))
        )

    def _try(self, number: int) -> dict[str, Any]:
        try:
            return self._row(number)
        except UnusableError:
            return {}

    def _row(self, number: int) -> dict[str, Any]:
        start, size, _ = self._lines[number]
        if size > LONGEST_ROW:
            raise UnusableError(BAD_ROW, f"{size / 1e6:.0f} MB")
        try:
            with open_file(self._path) as file:
                file.seek(start)
                text = file.read(size).decode("utf-8-sig")
            row: dict[str, Any] = parse_json(text, "it", dict, bulk=True)
        except (MotionkitError, OSError, UnicodeDecodeError) as error:
            # Only a MotionkitError has a message.
            raise UnusableError(BAD_ROW, getattr(error, "message", "") or str(error)) from error
        return row
