"""A path that a motion is asked to follow, as a table of points in time."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw, unwrap

_SLOW = 0.05
"""m/s below which a path without headings keeps the heading that it has."""

_FIX = "columns seconds, x, z and, if wanted, yaw: metres to the left and ahead of the start pose, degrees to the left."


def read_path(file: Path, fps: float) -> Tensor:
    """Read a CSV file of points and return steps ``[F, 3]`` as in `MotionState`, from time 0 to the last point.

    Between the points the path is straight; without a column ``yaw`` it faces where it goes.

    Raises:
        MotionkitError: It is missing, has other columns, values that are no numbers, or times that do not rise.
    """
    rows = list(csv.DictReader(read_text(file).splitlines()))
    columns = set(rows[0]) if rows else set()
    if not {"seconds", "x", "z"} <= columns:
        raise MotionkitError(
            f"{file} is no path.", why=f"its columns are {', '.join(map(str, columns)) or 'none'}.", fix=_FIX
        )
    try:
        table = {name: np.array([float(row[name]) for row in rows]) for name in ("seconds", "x", "z")}
        yaws = np.radians([float(row["yaw"]) for row in rows]) if "yaw" in columns else None
    except (TypeError, ValueError) as error:
        raise MotionkitError(f"{file} holds a value that is no number.", why=str(error), fix=_FIX) from error
    times = np.concatenate([[0.0], table["seconds"]]) if table["seconds"][0] > 0 else table["seconds"]
    if not all(np.isfinite(values).all() for values in table.values()) or (np.diff(times) <= 0).any() or times[0] < 0:
        raise MotionkitError(f"{file}: seconds must rise from 0, and all values be finite.", fix=_FIX)
    if times[-1] * fps < 1 or times[-1] > 3600:
        raise MotionkitError(f"{file} lasts {times[-1]:g} seconds; one frame to an hour is possible.")
    added = len(times) - len(rows)  # the origin, where the file begins later
    frames = np.arange(math.floor(times[-1] * fps) + 1) / fps
    place = np.stack([np.interp(frames, times, np.concatenate([[0.0] * added, table[name]])) for name in "xz"], axis=-1)
    if yaws is not None:
        yaw = np.interp(frames, times, np.unwrap(np.concatenate([[0.0] * added, yaws])))
    else:
        yaw = _headings(place, fps)
    return steps_of(torch.from_numpy(place), torch.from_numpy(yaw))


def steps_of(place: Tensor, yaw: Tensor) -> Tensor:
    """Return the steps ``[T - 1, 3]`` between places ``[T, 2]`` with headings ``[T]``; the inverse of `follow`."""
    moved = place.diff(dim=0)
    flat = torch.stack([moved[:, 0], torch.zeros_like(moved[:, 0]), moved[:, 1]], dim=-1)
    return torch.cat([rotate_yaw(flat, -yaw[:-1])[:, ::2], unwrap(yaw).diff()[:, None]], dim=-1)


def _headings(place: NDArray[np.float64], fps: float) -> NDArray[np.float64]:
    """Return where each frame of a path goes to next; the first frame faces ahead."""
    moved = np.diff(place, axis=0)
    yaw = np.zeros(len(place))
    for frame, (x, z) in enumerate(moved):
        yaw[frame + 1] = math.atan2(x, z) if math.hypot(x, z) * fps > _SLOW else yaw[frame]
    return np.unwrap(yaw)
