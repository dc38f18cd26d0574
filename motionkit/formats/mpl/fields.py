"""Fields of an exported motion over all its frames: the common part of JSON and npz, and the JSON file."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion.motion import RATES, finite_frames, nearest_finite, other_rate

LIMIT = 512 << 20
"""Bytes of JSON: about 50,000 frames of 46 bones, a quarter of an hour at 60 frames per second."""

_OTHERS = (
    ({"MuX", "StdX"}, "a normalisation bundle (MuX, StdX, ...)"),
    ({"MuAngVel"}, "a normalisation template for pretraining (MuAngVel, ...)"),
    ({"Bones", "NumBones"}, "a table of bone offsets; give it as --offsets, together with the motion"),
    ({"freerun_stage_schedule"}, "a training configuration"),
    ({"seq_len"}, "a training configuration"),
    ({"tf_mode"}, "a training configuration"),
    ({"nodes", "asset"}, "a glTF scene"),
)
"""Keys of other files in the folders of motions, and descriptions of those files."""

_EXPECTED = "a motion is a table with FPS and Frames, a list of tables with BoneRotations."


class Fields(ABC):
    """Fields of all frames of one motion.

    Frames with values that are not finite are filled with the nearest finite frame, so that paths and turns can be
    summed over all frames; `finite` remembers them for all fields read so far, and `mark_missing` sets them to NaN in
    the motion.

    Args:
        origin: The file, for messages.
        head: Everything but the frames.
        meta: The table ``meta``; empty if there is none.
        frames: Number of frames T.
    """

    def __init__(self, origin: str, head: Mapping[str, Any], meta: Mapping[str, Any], frames: int) -> None:
        self.origin, self.head, self.meta, self.frames = origin, head, meta, frames
        self.finite = torch.ones(frames, dtype=torch.bool)  # [T]: whether all values read so far are finite

    @abstractmethod
    def has(self, *names: str) -> str:
        """Return the first of the names that the file has; empty for none."""

    @abstractmethod
    def stored(self, name: str, *shape: int) -> Tensor:
        """`numbers` without filling gaps."""

    def numbers(self, name: str, *shape: int) -> Tensor:
        """Return a field of all frames with its gaps filled.

        Args:
            name: The field.
            shape: Its shape in a frame; -1 for any size that is the same in all frames.

        Returns:
            ``[T, *shape]`` float64, finite.
        """
        return self.fill(self.stored(name, *shape), name)

    def fill(self, values: Tensor, name: str) -> Tensor:
        """Return ``[T, ...]`` with its gaps filled, and remember them."""
        finite = finite_frames(values)
        self.finite &= finite
        if bool(finite.all()):
            return values
        if not bool(self.finite.any()):
            raise MotionkitError(
                f"{self.origin} has no frame whose values are all finite.",
                why=f"{name} is empty, NaN or infinite in {int((~finite).sum())} of {len(finite)} frames.",
            )
        return values[nearest_finite(finite)]


class JsonFields(Fields):
    """The fields of a JSON file."""

    def __init__(self, origin: str, data: Mapping[str, Any]) -> None:
        meta = data.get("meta")
        head = {name: value for name, value in data.items() if name != "Frames"}
        self.rows: Sequence[Mapping[str, Any]] = data["Frames"]  # one table per frame
        super().__init__(origin, head, meta if isinstance(meta, Mapping) else {}, len(self.rows))

    def has(self, *names: str) -> str:
        """Return the first of the names that any frame has; empty for none."""
        return next((name for name in names if any(row.get(name) is not None for row in self.rows)), "")

    def stored(self, name: str, *shape: int) -> Tensor:
        """Return a field as it is stored; null values are NaN."""
        values = [row.get(name) for row in self.rows]
        for index, value in enumerate(values):
            if value is None:
                raise MotionkitError(f"{self.origin}: frame {index} has no {name}.", why="the other frames have it.")
        try:
            array = np.array(values, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            array = np.empty((0,) * (len(shape) + 2))
        if array.ndim != len(shape) + 1 or any(a not in (b, -1) for a, b in zip(shape, array.shape[1:], strict=True)):
            self._complain(name, values, shape)
        return torch.from_numpy(array)

    def _complain(self, name: str, values: Sequence[object], shape: Sequence[int]) -> None:
        """Raise the error that names the first frame without numbers or with another shape."""
        first: tuple[int, ...] | None = None
        for index, value in enumerate(values):
            try:
                sizes = np.array(value, dtype=np.float64).shape
            except (ValueError, TypeError, OverflowError) as error:
                raise MotionkitError(
                    f"{self.origin}: {name} of frame {index} is not a table of numbers.", why=_reason(value, error)
                ) from error
            fits = len(sizes) == len(shape) and all(a in (-1, b) for a, b in zip(shape, sizes, strict=True))
            if not fits or sizes != (first := first or sizes):
                expected = first if fits and first is not None else shape
                raise MotionkitError(
                    f"{self.origin}: {name} of frame {index} has shape {_shape(sizes)}, expected {_shape(expected)}.",
                    why="every frame has the same bones." if fits else "",
                )


def open_json(path: Path) -> JsonFields:
    """Read a JSON file and check that it is a motion."""
    data = read_json(path, object, limit=LIMIT, bulk=True)
    if not isinstance(data, Mapping):
        raise MotionkitError(f"{path} holds a {type(data).__name__}, not a motion.", why=_EXPECTED)
    if "Frames" not in data:
        kind = next((kind for keys, kind in _OTHERS if keys <= data.keys()), "")
        if not kind and len(data) > 1 and all(isinstance(value, str | None) for value in data.values()):
            kind = "a table of bones and their parents; give it as --hierarchy, together with the motion"
        if kind:
            raise MotionkitError(f"{path} is {kind}, not a motion.")
        raise MotionkitError(f"{path} has no Frames.", why=_EXPECTED)
    rows = data["Frames"]
    if not isinstance(rows, list) or not rows:
        raise MotionkitError(f"{path}: Frames is {'empty' if rows in ([], None) else 'not a list'}.", why=_EXPECTED)
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise MotionkitError(f"{path}: frame {index} is a {type(row).__name__}, not a table of fields.")
    return JsonFields(str(path), data)


def frame_rate(fields: Fields, given: float) -> tuple[float, list[str]]:
    """Return frames per second, the given ones (0 for none) or else the file's; and warnings."""
    fps = fields.head.get("FPS")
    if fps is None:
        if given > 0:
            return given, [f"the file has no FPS; {given:g} frames per second were taken, as given."]
        raise MotionkitError(f"{fields.origin} has no FPS.", fix="write FPS into the file, or pass --source-fps.")
    low, high = RATES
    if given > 0 and not is_number(fps):
        return given, [f"its FPS is {fps!r:.40}: {given:g} were taken, as given (--source-fps)."]
    if not is_number(fps) or not low <= fps <= high:
        shown = f"{fps!r}"[:40]
        raise MotionkitError(f"{fields.origin}: FPS is {shown}; a number from {low:g} to {high:g} was expected.")
    if given > 0 and given != float(fps):
        return given, [other_rate(float(fps), given)]
    return float(fps), []


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value from a file is a finite number that a float can hold."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _shape(sizes: Sequence[int]) -> str:
    return "x".join("N" if size < 0 else str(size) for size in sizes) if sizes else "of a single number"


def _reason(value: object, error: Exception) -> str:
    """Return which row of a ragged table differs, or numpy's error."""
    if isinstance(value, list) and all(isinstance(row, list) for row in value):
        lengths = [len(row) for row in value]
        usual = max(set(lengths), key=lengths.count)
        odd = [place for place, length in enumerate(lengths) if length != usual]
        if odd:
            return f"its row {odd[0]} has {lengths[odd[0]]} numbers, the others have {usual}."
    return str(error)
