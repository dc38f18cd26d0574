"""Grasp-Any-Region: arrow files with ``image``, ``mask_rle`` and ``conversations``.

They are read by pyarrow, mapped from the disk: a row is copied when it is asked for. A file may hold offsets that lead
out of it, so a batch is checked before its first row is copied; pyarrow cannot check a row without its whole batch.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.regions._arrow import Column, check_batch, may_name_files, open_batches, row_of
from motionkit.datasets.regions._images import LARGEST_FILE
from motionkit.datasets.regions._places import fingerprint
from motionkit.datasets.regions._rows import BAD_IMAGE, BAD_ROW, LONGEST_ROW, NO_IMAGE, Record, UnusableError
from motionkit.datasets.regions._turns import parts_of
from motionkit.documents import read_json
from motionkit.errors import MotionkitError

_COLUMNS = {
    "image": Column(LARGEST_FILE, lists=False), "mask_rle": Column(LONGEST_ROW), "conversations": Column(LONGEST_ROW)
}  # fmt: skip
_LAYOUT = "wanted are folders such as Fine-Grained-Dataset with data-*-of-*.arrow, as hf download or save_to_disk leave"


class Grasp:
    """See `motionkit.datasets.regions._rows.Source`.

    Args:
        folder: Folder of folders of arrow files, or one of these.
        subset: First letters of the folders to use, by commas; all by default.
        commit: Of the hub, for the record.

    Raises:
        MotionkitError: there are no arrow files, or they have other columns.
    """

    def __init__(self, folder: Path, subset: str, commit: str = "") -> None:
        self.place = str(folder)
        self.inputs: Mapping[str, str] = {"revision": commit} if commit else {}
        self._files = _arrow_files(folder, subset)
        self._root = folder
        opened = [open_batches(path, _COLUMNS) for path in self._files]
        self._batches = [batch for batches in opened for batch in batches]
        self._ends = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._file_ends = np.cumsum([0, *(sum(batch.num_rows for batch in batches) for batches in opened)])
        self._checked: dict[int, str] = {}  # of each batch that was used: what is wrong with it
        states = [one for one in {path.parent / "state.json" for path in self._files} if one.is_file()]
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

    def _row(self, number: int, wanted: Mapping[str, Column]) -> dict[str, Any]:
        place, at = _find(self._ends, number)
        batch = self._batches[place]
        if place not in self._checked:
            self._checked[place] = check_batch(batch)
        if problem := self._checked[place]:
            raise UnusableError(BAD_ROW, problem)
        return row_of(batch, at, wanted)

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
                except UnusableError:  # it is left out, with the reason, when its rows are looked at
                    continue
                if isinstance(image, Path):
                    yield image


def _find(ends: NDArray[np.int64], number: int) -> tuple[int, int]:
    """Return which part a row is in, and which row of it, for the first row of each part and the end."""
    part = int(np.searchsorted(ends, number, side="right")) - 1
    return part, number - int(ends[part])


def _arrow_files(folder: Path, subset: str) -> list[Path]:
    """Return the arrow files of a folder or of its folders, in the order that ``state.json`` or their names give."""
    own = _of_folder(folder)
    places = [folder] if own else sorted({path.parent for path in folder.glob("*/**/*.arrow")})
    wanted = [first.strip().lower() for first in subset.split(",") if first.strip()]
    if wanted and not own:
        there = sorted({place.relative_to(folder).parts[0] for place in places})
        places = [place for place in places if place.relative_to(folder).parts[0].lower().startswith(tuple(wanted))]
        if not places:
            raise MotionkitError(
                f"no folder of {folder} begins with {subset}.", why=f"there are {', '.join(there) or 'none'}."
            )
    if files := own or [path for place in places for path in _of_folder(place)]:
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
        names = [str(one.get("filename")) for one in listed or () if isinstance(one, Mapping)]
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
            raise UnusableError(BAD_IMAGE, "base64 that is none") from error
    if isinstance(image, str) and image:
        return folder / image
    if isinstance(image, (bytes, bytearray)) and image:
        return bytes(image)
    if isinstance(image, Sequence):
        raise UnusableError(NO_IMAGE, "the row has none")
    raise UnusableError(NO_IMAGE, f"a {type(image).__name__}")
