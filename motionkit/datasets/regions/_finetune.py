"""Sa2VA's finetune file: a list of ``{"image", "mask": [polygons of each region], "text": [of each region]}``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from motionkit.datasets.regions._places import fingerprint, picture_folder, require_keys
from motionkit.datasets.regions._rows import BAD_ROW, NO_IMAGE, NO_MASK, Part, Record, UnusableError, split_of
from motionkit.documents import read_json

_LIMIT = 2 << 30
WANTED = ("image", "mask", "text")


class Finetune:
    """See `motionkit.datasets.regions._rows.Source`.

    Args:
        path: The JSON file.
        images: Folder of the pictures; the usual ones by default.

    Raises:
        MotionkitError: It is no such list.
    """

    inputs: Mapping[str, str] = {}

    def __init__(self, path: Path, images: Path | None) -> None:
        self.place = str(path)
        self._rows = read_json(path, list, limit=_LIMIT, bulk=True)
        rows = [row for row in self._rows if isinstance(row, Mapping)]
        require_keys(rows, WANTED, path, row="row", none="no objects")
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
        image, masks, texts = (row.get(name) for name in WANTED)
        if not isinstance(image, str) or not image:
            raise UnusableError(NO_IMAGE, "the row names none")
        if not masks:
            raise UnusableError(NO_MASK)
        if not isinstance(masks, list) or not isinstance(texts, list) or len(masks) != len(texts):
            counts = [len(one) if isinstance(one, list) else "no list of" for one in (masks, texts)]
            raise UnusableError(BAD_ROW, f"{counts[0]} masks and {counts[1]} texts")
        parts = tuple(Part(mask, text) for mask, text in zip(masks, texts, strict=True))
        return Record(self.where(number), self._folder / image, parts, split_of(row.get("split")))
