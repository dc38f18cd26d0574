"""The guide's trajectories: one ``.npy`` file per episode, which holds a pickled table. Nothing in it executes.

A file is ``{"images": {camera: float [T, C, H, W]}, "labels": float [T]}``, in the folder of successes or of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.config import cache_folder
from motionkit.datasets.episodes._collector import Collector
from motionkit.datasets.episodes._read import Episodes, open_episodes
from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic

_LIMIT = 2 << 30
_FOLDERS = ("positive", "negative")
_DARK = 1.5  # a value above it is of 0 to 255


@dataclass(frozen=True)
class _Trajectory:
    images: Mapping[str, NDArray[Any]]
    labels: NDArray[Any]


def open_trajectories(positive: Path, negative: Path, *, cameras: Sequence[str] = ()) -> Episodes:
    """Open the guide's folders; their frames are kept as bytes in the cache, since a file must be read whole.

    Args:
        positive: Folder of episodes with a success.
        negative: Folder of the others.
        cameras: Cameras that are wanted; empty: those of the first file.

    Raises:
        MotionkitError: A folder is missing or empty, or a file is no trajectory.
    """
    files = _files(positive, negative)
    mark = sha256("\0".join(cameras).encode())
    for _, path in files:
        status = path.stat()
        mark.update(f"{path.absolute()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    folder = cache_folder() / f"episodes-{mark.hexdigest()[:24]}"
    done = folder / "notes.txt"  # written last
    if not done.is_file():
        notes = _convert(files, folder, cameras)
        write_bytes_atomic(done, "\n".join(notes).encode())
    found = open_episodes(folder)
    found.notes = (*(line for line in done.read_text().splitlines() if line), *found.notes)
    return found


def import_trajectories(positive: Path, negative: Path, out: Path, *, cameras: Sequence[str] = ()) -> list[str]:
    """Write the guide's folders in motionkit's format; returns what was found odd, a sentence each.

    Args:
        positive: As for `open_trajectories`.
        negative: As for `open_trajectories`.
        out: The new folder.
        cameras: As for `open_trajectories`.

    Raises:
        MotionkitError: As `open_trajectories`, or `out` holds something already.
    """
    if out.exists() and any(out.iterdir()):
        raise MotionkitError(f"{out} is not empty.", fix="choose a new folder.")
    return _convert(_files(positive, negative), out, cameras)


def export_trajectories(episodes: Episodes, out: Path) -> int:
    """Write episodes as the guide's files, ``positive/000000.npy`` and ``negative/000000.npy``; returns how many.

    The files are pickles, as the guide's code reads them; they hold arrays and plain tables alone.

    Raises:
        MotionkitError: `out` holds something already.
    """
    if out.exists() and any(out.iterdir()):
        raise MotionkitError(f"{out} is not empty.", fix="choose a new folder.")
    counts = dict.fromkeys(_FOLDERS, 0)
    for number, record in enumerate(episodes.records):
        frames = episodes.read(np.flatnonzero(episodes.episode == number))
        # [T, H, W, 3] uint8 -> [T, C, H, W] float32 in [0, 1].
        images = {name: value.transpose(0, 3, 1, 2).astype(np.float32) / 255 for name, value in frames.items()}
        labels = episodes.labels[episodes.episode == number]
        folder = out / _FOLDERS[0 if record.positive else 1]
        folder.mkdir(parents=True, exist_ok=True)
        table = np.empty((), dtype=object)
        table[()] = {"images": images, "labels": labels}
        np.save(folder / f"{counts[folder.name]:06d}.npy", table, allow_pickle=True)
        counts[folder.name] += 1
    return sum(counts.values())


def _files(positive: Path, negative: Path) -> list[tuple[bool, Path]]:
    found: list[tuple[bool, Path]] = []
    for folder, sign in ((positive.expanduser(), True), (negative.expanduser(), False)):
        if not folder.is_dir():
            raise MotionkitError(f"{folder} is no folder.", fix="give the folders that hold 000000.npy, ...")
        own = sorted(path for path in folder.iterdir() if path.suffix == ".npy" and path.is_file())
        if not own:
            raise MotionkitError(f"{folder} holds no .npy file.", fix="give the folders that hold 000000.npy, ...")
        found += [(sign, path) for path in own]
    return found


def _convert(files: Sequence[tuple[bool, Path]], out: Path, cameras: Sequence[str]) -> list[str]:
    first = _read(files[0][1])
    names = tuple(cameras) or tuple(first.images)
    if missing := [name for name in names if name not in first.images]:
        raise MotionkitError(
            f"{files[0][1]} has no camera {missing[0]}.", why=f"it has {', '.join(first.images)}.", fix="--data.cameras"
        )
    sizes = {name: (first.images[name].shape[2], first.images[name].shape[3]) for name in names}
    # One scale for all: a dark picture of 0 to 255 must not be taken for one of 0 to 1.
    highest = max(float(values.max()) for one in _trajectories(files) for values in one.images.values())
    scale = 1.0 if highest > _DARK else 255.0
    odd = {"positive": 0, "negative": 0}
    only_last, positives = 0, 0
    with Collector(out, cameras=sizes) as collector:
        for (sign, path), one in zip(files, _trajectories(files), strict=True):
            collector.source = str(path.parent)
            labels = one.labels >= 0.5
            odd["positive" if sign else "negative"] += bool(labels.any()) is not sign
            if labels.any():
                positives += 1
                only_last += bool(labels.sum() == 1 and labels[-1])
            frames = {name: _bytes(one.images, name, sizes[name], scale, path) for name in names}
            for step in range(len(labels)):
                collector.add(
                    {name: values[step] for name, values in frames.items()}, labels[step], step == len(labels) - 1
                )
    notes = []
    if scale == 1.0:
        notes.append(f"pictures hold values up to {highest:g}, not the guide's 0 to 1: they are read as 0 to 255.")
    for folder, count in odd.items():
        if count:
            notes.append(f"{count} files in the {folder} folder are of the other class by their labels; labels count.")
    if positives and only_last == positives:
        notes.append(
            "all episodes with a success end with it, and their last frame alone is labelled: if they were collected "
            "with automatic resets, that frame shows the next episode."
        )
    return notes


def _trajectories(files: Sequence[tuple[bool, Path]]) -> Iterator[_Trajectory]:
    return (_read(path) for _, path in files)


def _read(path: Path) -> _Trajectory:
    from motionkit.weights import read_array

    content = read_array(path, limit=min(_LIMIT, max(1 << 20, 64 * path.stat().st_size)))
    images = content.get("images") if isinstance(content, Mapping) else None
    labels = np.asarray(content.get("labels")) if isinstance(content, Mapping) else np.zeros(0)
    fix = "a trajectory holds {'images': {camera: [T, C, H, W]}, 'labels': [T]}."
    if not isinstance(images, Mapping) or not images or labels.ndim != 1 or labels.dtype.kind not in "biuf":
        raise MotionkitError(f"{path} is no trajectory.", fix=fix)
    for name, values in images.items():
        good = isinstance(name, str) and isinstance(values, np.ndarray) and values.dtype.kind in "uif"
        if not good or values.ndim != 4 or values.shape[1] != 3 or len(values) != len(labels) or not len(labels):
            shape = getattr(values, "shape", type(values).__name__)
            raise MotionkitError(f"{path} is no trajectory: {name} is {shape}, with {len(labels)} labels.", fix=fix)
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 255:
            raise MotionkitError(f"{path}: {name} holds values that are no picture's.", why="0 to 1 or 0 to 255.")
    if not np.isfinite(labels).all():
        raise MotionkitError(f"{path}: a label is not finite.")
    return _Trajectory(images, labels)


def _bytes(
    images: Mapping[str, NDArray[Any]], name: str, size: tuple[int, int], scale: float, path: Path
) -> NDArray[np.uint8]:
    """Return ``[T, H, W, 3]`` uint8."""
    values = images.get(name)
    if values is None or (values.shape[2], values.shape[3]) != size:
        has = "no such camera" if values is None else f"{values.shape[2]} x {values.shape[3]}"
        raise MotionkitError(f"{path}: {name} has {has}; the first file's is {size[0]} x {size[1]}.")
    found: NDArray[np.uint8] = (values.transpose(0, 2, 3, 1).astype(np.float32) * scale + 0.5).astype(np.uint8)
    return found
