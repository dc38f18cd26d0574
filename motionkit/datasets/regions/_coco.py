"""Referring expressions in COCO's format: images, annotations with segmentations, and refs with sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import weights
from motionkit.datasets.regions._places import fingerprint, one_file, picture_folder
from motionkit.datasets.regions._rows import NO_IMAGE, NO_MASK, Part, Record, UnusableError, split_of
from motionkit.documents import read_json
from motionkit.errors import MotionkitError

_LIMIT = 4 << 30
_WANTED = "images and annotations with segmentations; sentences of the annotations in refs"
_CONVERT = (
    'if you trust the file, make it JSON: python -c "import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], '
    "'rb'), encoding='latin1'), open(sys.argv[2], 'w'))\" 'refs(unc).p' 'refs(unc).json'"
)


@dataclass(frozen=True)
class _Ref:
    """What is said of an annotation."""

    annotation: object
    image: object
    sentences: tuple[object, ...]
    split: str


class Coco:
    """See `motionkit.datasets.regions._rows.Source`. Each sentence is a region of its own.

    Args:
        path: Folder, or a JSON file that holds the sentences itself.
        refs: Part of the name of the refs file.
        images: Folder of the pictures; the usual ones by default.

    Raises:
        MotionkitError: A file is missing or no such file.
    """

    inputs: Mapping[str, str] = {}

    def __init__(self, path: Path, refs: str, images: Path | None) -> None:
        instances = one_file(path, ("instances*.json", "annotations*.json", "*.json"), "instances.json")
        self.place = str(path)
        content = read_json(instances, dict, limit=_LIMIT, bulk=True)
        tables = [content.get(name) for name in ("images", "annotations")]
        if not all(isinstance(table, list) and table for table in tables):
            raise MotionkitError(
                f"{instances} is no COCO file with {' and '.join(('images', 'annotations'))}.",
                why=f"found were {', '.join(map(str, list(content)[:8])) or 'nothing'}; wanted are {_WANTED}.",
            )
        self._files = {one["id"]: one.get("file_name") for one in _rows(content["images"])}
        self._annotations = {one["id"]: one for one in _rows(content["annotations"])}
        documents = [instances]
        said: Any = content.get("refs")
        if said is None and path.is_dir() and (file := _refs_file(path, refs, instances)) is not None:
            documents.append(file)
            said = _read_refs(file)
        self._refs = list(_refs(said) if said is not None else _own(self._annotations))
        if not self._refs:
            raise MotionkitError(
                f"{path} has no sentences.", why=f"wanted are {_WANTED}.",
                fix="put refs.json beside instances.json, or sentences into the annotations; see docs/region-data.md.",
            )  # fmt: skip
        names = [name for name in self._files.values() if isinstance(name, str) and name]
        self._folder = picture_folder(instances.parent, images, names[0] if names else "")
        used = [self._files.get(_key(self._image_of(ref))) for ref in self._refs]
        self.mark = fingerprint(documents, [self._folder / one for one in used if isinstance(one, str)], self._folder)

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
    """Return an id that can be looked up; lists cannot."""
    return value if isinstance(value, (int, str)) else None


def _rows(table: list[Any]) -> Iterator[Mapping[str, Any]]:
    return (one for one in table if isinstance(one, Mapping) and isinstance(one.get("id"), (int, str)))


def _text(sentence: object) -> object:
    """Return the words of a sentence: the text itself, or what REFER calls sent (lower case) or raw."""
    return (sentence.get("sent") or sentence.get("raw")) if isinstance(sentence, Mapping) else sentence


def _refs(said: object) -> Iterator[_Ref]:
    for one in said if isinstance(said, list) else ():
        if isinstance(one, Mapping):
            sentences = one.get("sentences")
            texts = tuple(sentences) if isinstance(sentences, list) else ()
            yield _Ref(one.get("ann_id"), one.get("image_id"), texts or (None,), split_of(one.get("split")))


def _own(annotations: Mapping[object, Mapping[str, Any]]) -> Iterator[_Ref]:
    """Yield what annotations say of themselves."""
    for key, one in annotations.items():
        texts = next((one[name] for name in ("sentences", "expressions", "caption") if one.get(name)), None)
        if texts is not None:
            listed = tuple(texts) if isinstance(texts, list) else (texts,)
            yield _Ref(key, one.get("image_id"), listed, split_of(one.get("split")))


def _refs_file(folder: Path, part: str, instances: Path) -> Path | None:
    there = [one for one in folder.iterdir() if one.name.startswith("refs") and one != instances]
    if not any(part in one.name for one in there):
        if part:
            names = ", ".join(sorted(one.name for one in there)) or "no file refs*"
            raise MotionkitError(f"no refs file of {folder} has {part} in its name.", why=f"there is {names}.")
        return None
    return one_file(folder, ("refs*.json", "refs*.p"), "refs file", part=part)


def _read_refs(file: Path) -> list[Any]:
    """Read a refs file; a pickle is read without running it, which works for the binary ones of plain values."""
    if file.suffix == ".json":
        return read_json(file, list, limit=_LIMIT, bulk=True)
    try:
        found = weights.read(file)
    except MotionkitError as error:
        raise MotionkitError(
            f"{file} is a pickle that is not opened.", why="a pickle is a program, and may do anything.", fix=_CONVERT
        ) from error
    if not isinstance(found, list):
        raise MotionkitError(f"{file} holds no list of refs.")
    return found
