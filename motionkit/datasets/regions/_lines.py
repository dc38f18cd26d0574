"""A file with a region a line: ``{"image": "a.jpg", "mask": "a.png", "caption": "a red cup"}``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.datasets.regions._places import fingerprint, require_keys
from motionkit.datasets.regions._rows import BAD_ROW, LONGEST_ROW, NO_IMAGE, Part, Record, UnusableError, split_of
from motionkit.documents import open_file, parse_json
from motionkit.errors import MotionkitError

WANTED = ("image", "mask", "caption")


class Lines:
    """See `motionkit.datasets.regions._rows.Source`. The places of the lines are kept, not the lines.

    Args:
        path: The file; pictures are named from its folder.

    Raises:
        MotionkitError: The file is empty, or its first line is no object with image, mask and caption.
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
        require_keys(rows, WANTED, path, row="line", none="no JSON objects")
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
            raise UnusableError(BAD_ROW, getattr(error, "message", "") or str(error)) from error
        return row
