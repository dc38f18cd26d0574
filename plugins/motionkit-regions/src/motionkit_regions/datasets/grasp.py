"""Grasp-Any-Region: arrow files with ``image``, ``mask_rle`` and ``conversations``.

`parts_of` assigns the texts of a conversation to regions.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit_regions.datasets.arrow_files import Column, check_batch, may_name_files, open_batches, row_of
from motionkit_regions.datasets.images import LARGEST_FILE
from motionkit_regions.datasets.places import fingerprint
from motionkit_regions.datasets.rows import (
    BAD_IMAGE,
    BAD_ROW,
    LONGEST_ROW,
    NO_CAPTION,
    NO_IMAGE,
    NO_MASK,
    SEVERAL,
    Part,
    Record,
    UnusableError,
)

_PROMPT = re.compile(r"<Prompt(\d{1,6})>")
_LINE = re.compile(r"^\s*<Prompt(\d{1,6})>\s*:\s*(.+)$")
_LEAD = re.compile(r"^\s*<Prompt\d{1,6}>\s*:\s*")
_OTHER = "this object"

_LAYOUT = "wanted are folders such as Fine-Grained-Dataset with data-*-of-*.arrow, as hf download or save_to_disk leave"


_COLUMNS = {
    "image": Column(LARGEST_FILE, lists=False), "mask_rle": Column(LONGEST_ROW), "conversations": Column(LONGEST_ROW)
}  # fmt: skip


class Grasp:
    """A folder of arrow files; see `motionkit_regions.datasets.rows.Source`."""

    def __init__(self, folder: Path, subset: str, commit: str = "") -> None:
        self.place = str(folder)
        self.inputs: Mapping[str, str] = {"revision": commit} if commit else {}
        self._files = _arrow_files(folder, subset)
        self._root = folder
        opened = [open_batches(path, _COLUMNS) for path in self._files]
        self._batches = [batch for batches in opened for batch in batches]
        self._ends = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._file_ends = np.cumsum([0, *(sum(batch.num_rows for batch in batches) for batches in opened)])
        self._checked: dict[int, str] = {}  # fault of each batch that was used, empty if there is none
        states = [
            candidate for candidate in {path.parent / "state.json" for path in self._files} if candidate.is_file()
        ]
        self.mark = fingerprint(sorted(states), [*self._files, *self._pictures()], folder)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def where(self, number: int) -> str:
        """See `Source.where`."""
        file, row = _find(self._file_ends, number)
        return f"row {row} of {self._files[file].relative_to(self._root).as_posix()}"

    def record(self, number: int) -> Record:
        """See `Source.record`."""
        row = self._row(number, _COLUMNS)
        image = _picture(row["image"], self._folder(number))
        return Record(self.where(number), image, parts_of(row["mask_rle"], row["conversations"]))

    def _row(self, number: int, columns: Mapping[str, Column]) -> dict[str, Any]:
        place, at = _find(self._ends, number)
        batch = self._batches[place]
        if place not in self._checked:
            self._checked[place] = check_batch(batch)
        if problem := self._checked[place]:
            raise UnusableError(BAD_ROW, problem)
        return row_of(batch, at, columns)

    def _folder(self, number: int) -> Path:
        return self._files[_find(self._file_ends, number)[0]].parent

    def _pictures(self) -> Iterator[Path]:
        """Yield the pictures that lie outside the arrow files."""
        for place, batch in enumerate(self._batches):
            if not may_name_files(batch.column("image")):
                continue
            for number in range(self._ends[place], self._ends[place + 1]):
                try:
                    image = _picture(self._row(number, {"image": _COLUMNS["image"]})["image"], self._folder(number))
                except UnusableError:  # it is left out, with the reason, when its rows are indexed
                    continue
                if isinstance(image, Path):
                    yield image


def _find(ends: NDArray[np.int64], number: int) -> tuple[int, int]:
    """Return the part of a row and its number there, given the cumulative ends of the parts."""
    part = int(np.searchsorted(ends, number, side="right")) - 1
    return part, number - int(ends[part])


def _arrow_files(folder: Path, subset: str) -> list[Path]:
    """Return the arrow files of a folder or of its folders, in the order that ``state.json`` or their names give."""
    direct = _of_folder(folder)
    places = [folder] if direct else sorted({path.parent for path in folder.glob("*/**/*.arrow")})
    prefixes = [first.strip().lower() for first in subset.split(",") if first.strip()]
    if prefixes and not direct:
        there = sorted({place.relative_to(folder).parts[0] for place in places})
        places = [place for place in places if place.relative_to(folder).parts[0].lower().startswith(tuple(prefixes))]
        if not places:
            raise MotionkitError(
                f"no folder of {folder} begins with {subset}.", why=f"there are {', '.join(there) or 'none'}."
            )
    if files := direct or [path for place in places for path in _of_folder(place)]:
        return files
    there = sorted(path.name for path in folder.iterdir())
    raise MotionkitError(
        f"{folder} has no arrow files.", why=f"it holds {', '.join(there[:6]) or 'nothing'}; {_LAYOUT} them.",
        fix="hf download HaochenWang/Grasp-Any-Region-Dataset --repo-type dataset --local-dir data",
    )  # fmt: skip


def _of_folder(folder: Path) -> list[Path]:
    there = sorted(path for path in folder.glob("*.arrow") if not path.name.startswith("cache-"))
    if (state := folder / "state.json").is_file():
        listed = read_json(state, dict).get("_data_files")
        names = [str(entry.get("filename")) for entry in listed or () if isinstance(entry, Mapping)]
        missing = [name for name in names if name not in {path.name for path in there}]
        if missing:
            raise MotionkitError(
                f"{folder} is incomplete: {', '.join(missing[:3])} of {len(names)} files is missing.",
                fix="download it again; hf download goes on where it stopped.",
            )
        there = [folder / name for name in names]
    return there


def _picture(image: object, folder: Path) -> bytes | Path:
    """Return a picture that is stored as bytes, as a path, as base64, or as a table of bytes and path."""
    if isinstance(image, Mapping):
        image = image.get("bytes") or image.get("path")
    if isinstance(image, str) and image.startswith("data:"):
        try:
            return base64.b64decode(image.partition("base64,")[2], validate=True)
        except (binascii.Error, ValueError) as error:
            raise UnusableError(BAD_IMAGE, "invalid base64") from error
    if isinstance(image, str) and image:
        return folder / image
    if isinstance(image, (bytes, bytearray)) and image:
        return bytes(image)
    if isinstance(image, Sequence):
        raise UnusableError(NO_IMAGE, "the row has none")
    raise UnusableError(NO_IMAGE, f"a {type(image).__name__}")


def parts_of(masks: object, conversations: object) -> tuple[Part, ...]:
    """Return the regions that have a text of their own.

    A row with several regions names them ``<Prompt0>``, ``<Prompt1>``, ... A policy captions one region at a time, so a
    text is used for a region only if it is of that region alone.

    A single mask gets the last answer. Several masks get an answer each in turn if no text names a region; otherwise an
    answer is of the one region that it and its question name, and an answer of lines ``<PromptN>: ...`` has a text for
    each of them.

    Args:
        masks: RLE, or a list of RLE.
        conversations: A list of ``{"from": "human" or "gpt", "value": text}``.
    """
    shapes = masks if isinstance(masks, list) else [masks]
    if not shapes or shapes[0] is None:
        raise UnusableError(NO_MASK)
    turns = _exchanges(conversations)
    if not turns:
        raise UnusableError(NO_CAPTION, "there is no answer")
    if len(shapes) == 1:
        return (Part(shapes[0], _words(turns[-1][1])),)
    if not any(_PROMPT.search(text) for turn in turns for text in turn):
        if len(turns) != len(shapes):
            raise UnusableError(SEVERAL, f"{len(turns)} answers for {len(shapes)} regions")
        return tuple(Part(shape, answer) for shape, (_, answer) in zip(shapes, turns, strict=True))
    pairs = [pair for turn in turns for pair in _of_one(*turn)]
    if wrong := [number for number, _ in pairs if number >= len(shapes)]:
        raise UnusableError(BAD_ROW, f"<Prompt{wrong[0]}> of {len(shapes)} regions")
    if not pairs:
        raise UnusableError(SEVERAL)
    return tuple(Part(shapes[number], _words(text)) for number, text in pairs)


def _exchanges(conversations: object) -> list[tuple[str, str]]:
    """Return questions with their answers."""
    exchanges: list[tuple[str, str]] = []
    question = ""
    for turn in conversations if isinstance(conversations, list) else ():
        if not isinstance(turn, Mapping):
            continue
        text = turn.get("value")
        text = text if isinstance(text, str) else ""
        if turn.get("from") == "gpt":
            exchanges.append((question, text))
            question = ""
        else:
            question = text
    return exchanges


def _of_one(question: str, answer: str) -> list[tuple[int, str]]:
    """Return the texts of an exchange that are of one region, with its number."""
    lines: list[Any] = [_LINE.match(line) for line in answer.splitlines() if line.strip()]
    if lines and all(lines):
        return [(int(line[1]), line[2]) for line in lines if not _PROMPT.search(line[2])]
    named = {int(number) for number in _PROMPT.findall(f"{question} {answer}")}
    return [(named.pop(), answer)] if len(named) == 1 else []


def _words(text: str) -> str:
    """Strip region placeholders (``<Prompt1>``) from a caption."""
    return _PROMPT.sub(_OTHER, _LEAD.sub("", text))
