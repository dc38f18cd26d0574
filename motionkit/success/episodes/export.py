"""Episodes as the guide's files, for the code of its authors."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from motionkit.runs import OutputFolder, disk_errors
from motionkit.success.episodes.open import open_episodes
from motionkit.success.episodes.read import Episodes

_FOLDERS = {True: "positive", False: "negative"}
_RECORD, _KIND = "export.json", "motionkit-trajectories"


def export_trajectories(episodes: Episodes, out: Path, *, overwrite: bool = False) -> dict[str, int]:
    """Write episodes as the guide's files: ``positive/000000.npy`` and ``negative/000000.npy``.

    A file is a pickle, as the guide's code reads it; it holds arrays and plain tables alone. The folder appears whole,
    with a record of what is in it.

    Returns:
        Files by the name of their folder.

    Raises:
        MotionkitError: `out` holds something else (exit code 2), or the disk is full (exit code 1).
    """
    place = OutputFolder(out, _RECORD, _KIND, overwrite=overwrite)
    place.claim()
    counts = dict.fromkeys(_FOLDERS.values(), 0)
    with place.beside() as part:
        with disk_errors("write trajectories", out):
            for name in counts:
                (part / name).mkdir()
            for number, record in enumerate(episodes.records):
                name = _FOLDERS[record.positive]
                (part / name / f"{counts[name]:06d}.npy").write_bytes(_file(episodes, number))
                counts[name] += 1
        place.settle(part, {"schema": 1, "trajectories": dict(counts)})
    return counts


def open_whole(place: Path) -> Episodes:
    """Open the episodes of a run of reward-collect, or of a folder, to export them."""
    episodes = open_episodes(place)
    episodes.require_whole()
    return episodes


def _file(episodes: Episodes, number: int) -> bytes:
    own = np.flatnonzero(episodes.episode == number)
    # [T, H, W, 3] uint8 -> [T, C, H, W] float32 in [0, 1].
    images = {
        name: np.ascontiguousarray(value.transpose(0, 3, 1, 2)).astype(np.float32) / 255
        for name, value in episodes.read(own).items()
    }
    table = np.empty((), dtype=object)
    table[()] = {"images": images, "labels": episodes.labels[own]}
    found = io.BytesIO()
    np.save(found, table, allow_pickle=True)
    return found.getvalue()
