"""Grasp-Any-Region: arrow files with ``image``, ``mask_rle`` and ``conversations``.

They are read by pyarrow, mapped from the disk: a row is copied when it is asked for, and checked then, as a file may
hold offsets that lead out of it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from motionkit.datasets.regions._places import fingerprint
from motionkit.datasets.regions._rows import BAD_IMAGE, BAD_ROW, NO_IMAGE, Record, UnusableError
from motionkit.datasets.regions._turns import parts_of
from motionkit.documents import open_file, read_json
from motionkit.errors import MotionkitError

WANTED = ("image", "mask_rle", "conversations")
_LAYOUT = "wanted are folders such as Fine-Grained-Dataset with data-*-of-*.arrow, as hf download or save_to_disk leave"
_ENDS = 1 << 16


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
        self._tables = [_open(path) for path in self._files]
        counts = [table.num_rows for table in self._tables]
        self._ends = np.cumsum(counts)
        mark = sha256()
        for path in self._files:
            mark.update(f"{path.relative_to(folder).as_posix()} {_mark(path)}\n".encode(errors="surrogateescape"))
        states = [one for one in {path.parent / "state.json" for path in self._files} if one.is_file()]
        self.mark = sha256(f"{mark.hexdigest()} {fingerprint(sorted(states), [], folder)}".encode()).hexdigest()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def where(self, number: int) -> str:
        """See `Source.where`."""
        file, row = self._find(number)
        return f"row {row} of {self._files[file].relative_to(self._root).as_posix()}"

    def record(self, number: int) -> Record:
        """See `Source.record`."""
        file, at = self._find(number)
        row = self._row(file, at)
        image = _picture(row["image"], self._files[file].parent)
        return Record(self.where(number), image, parts_of(row["mask_rle"], row["conversations"]))

    def _find(self, number: int) -> tuple[int, int]:
        file = int(np.searchsorted(self._ends, number, side="right"))
        return file, number - (int(self._ends[file - 1]) if file else 0)

    def _row(self, file: int, at: int) -> dict[str, Any]:
        try:
            row = self._tables[file].slice(at, 1)
            row.validate(full=True)
            found: dict[str, Any] = row.to_pylist()[0]
        # A damaged file can raise nearly any exception.
        except Exception as error:
            raise UnusableError(BAD_ROW, _first_line(error)[:80]) from error
        return found


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


def _open(path: Path) -> Any:
    """Map the wanted columns of an arrow stream, or of an arrow file."""
    import pyarrow as pa

    try:
        with open_file(path):  # a pipe would never end
            pass
        try:
            table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        except pa.ArrowInvalid:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        found = list(table.column_names)
    except MotionkitError:
        raise
    # A damaged file can raise nearly any exception.
    except Exception as error:
        raise MotionkitError(
            f"{path} is no arrow file, or a damaged one.", why=_first_line(error)[:200],
            fix="download it again; a stopped download leaves a shorter file.",
        ) from error  # fmt: skip
    if missing := [name for name in WANTED if found.count(name) != 1]:
        raise MotionkitError(
            f"{path} has no column {' or '.join(missing)}.",
            why=f"found were {', '.join(found[:8]) or 'none'}; wanted are {', '.join(WANTED)}.",
        )
    return table.select(list(WANTED))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _mark(path: Path) -> str:
    """Return a hash of a file's length and of both its ends: the whole would take minutes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_ENDS)
        file.seek(max(0, size - _ENDS))
        return sha256(str(size).encode() + head + file.read()).hexdigest()


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
