"""Shards: raw uint8 frames of one camera, one after the other; a file that only grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.runs import MappedPages

Size = tuple[int, int]


def shard_path(folder: Path, shard: str, camera: str) -> Path:
    """Return the file of a shard and a camera."""
    return folder / f"{shard}.{camera}.u8"


def column_path(folder: Path, shard: str, column: str) -> Path:
    """Return the file of a shard and a column: rows of little-endian float32."""
    return folder / f"{shard}.{column}.f32"


def frame_bytes(size: Size) -> int:
    """Return the bytes of one RGB frame."""
    return size[0] * size[1] * 3


def whole_frames(folder: Path, shard: str, cameras: Mapping[str, Size]) -> int:
    """Return how many frames of a shard are there for every camera; 0 where a file is missing."""
    counts = []
    for camera, size in cameras.items():
        path = shard_path(folder, shard, camera)
        counts.append(path.stat().st_size // frame_bytes(size) if path.is_file() else 0)
    return min(counts)


def read_rows(path: Path, width: int, first: int, count: int) -> bytes:
    """Return rows of a column; fewer where the file ends before.

    Raises:
        OSError: The file cannot be read.
    """
    row = 4 * width
    with path.open("rb") as file:
        file.seek(first * row)
        return file.read(count * row)


class ShardReader:
    """Reads frames of several shards by their place; files are mapped, so that memory does not grow with them.

    Args:
        folders: Folder of each shard.
        shards: Its name.
        cameras: ``(height, width)`` by name.
    """

    def __init__(self, folders: Sequence[Path], shards: Sequence[str], cameras: Mapping[str, Size]) -> None:
        self._places = list(zip(folders, shards, strict=True))
        self._cameras = dict(cameras)
        self._maps: dict[tuple[int, str], np.memmap[Any, np.dtype[np.uint8]]] = {}
        self._pages = MappedPages()

    def read(self, camera: str, shard: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return frames ``[M, H, W, 3]`` at row `row` of shard number `shard`, each ``[M]``."""
        height, width = self._cameras[camera]
        found = np.empty((len(row), height, width, 3), np.uint8)
        # In the order of the file: neighbours are read together.
        order = np.lexsort((row, shard))
        for number in np.unique(shard).tolist():
            own = order[shard[order] == number]
            file = self._map(number, camera)
            found[own] = file[row[own]]
            self._pages.touched(file, len(own))
        return found

    def place(self, number: int) -> tuple[Path, str]:
        """Return folder and name of shard `number`."""
        return self._places[number]

    def _map(self, number: int, camera: str) -> np.memmap[Any, np.dtype[np.uint8]]:
        if (number, camera) not in self._maps:
            folder, shard = self._places[number]
            height, width = self._cameras[camera]
            path = shard_path(folder, shard, camera)
            count = path.stat().st_size // frame_bytes((height, width))
            self._maps[number, camera] = np.memmap(path, np.uint8, "r", shape=(count, height, width, 3))
        return self._maps[number, camera]
