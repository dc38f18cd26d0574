"""An exported JSON file as arrays: one per field, whatever is wrong named by frame and field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion._motion import RATES

LIMIT = 512 << 20
"""Bytes of JSON that are read: about 50,000 frames of 46 bones, a quarter of an hour at 60 frames per second."""

_OTHERS = (
    ({"MuX", "StdX"}, "a normalisation bundle (MuX, StdX, ...)"),
    ({"MuAngVel"}, "a normalisation template for pretraining (MuAngVel, ...)"),
    ({"Bones", "NumBones"}, "a table of bone offsets; give it as --offsets, beside the motion"),
    ({"freerun_stage_schedule"}, "a training configuration"),
    ({"seq_len"}, "a training configuration"),
    ({"tf_mode"}, "a training configuration"),
    ({"nodes", "asset"}, "a glTF scene"),
)
"""Keys of other files that lie beside motions, and what those files are."""


@dataclass(frozen=True)
class Document:
    """A motion file, parsed and known to be one.

    Attributes:
        origin: The file, for messages.
        head: Everything but the frames.
        meta: The table ``meta``; empty when there is none.
        rows: One table per frame.
    """

    origin: str
    head: Mapping[str, Any]
    meta: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.rows)

    def has(self, *names: str) -> str:
        """Return the first of some names of a field that any frame has; empty when none has."""
        return next((name for name in names if any(row.get(name) is not None for row in self.rows)), "")

    def numbers(self, name: str, *shape: int) -> Tensor:
        """Return a field of all frames.

        Args:
            name: The field.
            shape: Its shape in one frame; -1 for a count that only has to be the same everywhere.

        Returns:
            ``[T, *shape]`` float64; not finite where the file's values are not, NaN where they are null.

        Raises:
            MotionkitError: A frame lacks it, or it has another shape or no numbers there.
        """
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
        """Say which frame has no numbers or another shape than it should, the first frame else."""
        first: tuple[int, ...] | None = None
        for index, value in enumerate(values):
            try:
                found = np.array(value, dtype=np.float64).shape
            except (ValueError, TypeError, OverflowError) as error:
                raise MotionkitError(
                    f"{self.origin}: {name} of frame {index} is no table of numbers.", why=_reason(value, error)
                ) from error
            fits = len(found) == len(shape) and all(a in (-1, b) for a, b in zip(shape, found, strict=True))
            if not fits or found != (first := first or found):
                expected = first if fits and first is not None else shape
                raise MotionkitError(
                    f"{self.origin}: {name} of frame {index} has shape {_shape(found)}, expected {_shape(expected)}.",
                    why="every frame has the same bones." if fits else "",
                )


def open_document(path: Path) -> Document:
    """Read a JSON file and make sure that it is a motion.

    Raises:
        MotionkitError: Missing, too large, malformed (with line and column), without frames, or something else (the
            message says what).
    """
    data = read_json(path, object, limit=LIMIT, bulk=True)
    if not isinstance(data, Mapping):
        raise MotionkitError(f"{path} holds a {type(data).__name__}, not a motion.", why=_EXPECTED)
    if "Frames" not in data:
        kind = next((kind for keys, kind in _OTHERS if keys <= data.keys()), "")
        if not kind and len(data) > 1 and all(isinstance(value, str) for value in data.values()):
            kind = "a table of bones and their parents; give it as --hierarchy, beside the motion"
        if kind:
            raise MotionkitError(f"{path} is {kind}, not a motion.")
        raise MotionkitError(f"{path} has no Frames.", why=_EXPECTED)
    rows = data["Frames"]
    if not isinstance(rows, list) or not rows:
        raise MotionkitError(f"{path}: Frames is {'empty' if rows in ([], None) else 'no list'}.", why=_EXPECTED)
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise MotionkitError(f"{path}: frame {index} is a {type(row).__name__}, not a table of fields.")
    meta = data.get("meta")
    head = {name: value for name, value in data.items() if name != "Frames"}
    return Document(str(path), head, meta if isinstance(meta, Mapping) else {}, rows)


class Fields(Protocol):
    """What motion is built from: the fields of a JSON document, or the arrays of an npz under the same names."""

    @property
    def origin(self) -> str:
        """Return the file, for messages."""
        ...

    @property
    def head(self) -> Mapping[str, Any]:
        """Return what there is besides frames."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return the table ``meta``."""
        ...

    @property
    def frames(self) -> int:
        """Return the number of frames."""
        ...

    def has(self, *names: str) -> str:
        """Return the first of some names of a field that is there; empty when none is."""
        ...

    def numbers(self, name: str, *shape: int) -> Tensor:
        """Return a field of all frames, ``[T, *shape]`` float64, as `Document.numbers` does."""
        ...


def frame_rate(document: Fields, given: float) -> tuple[float, list[str]]:
    """Return frames per second, from the file or, where it does not say, as given; and warnings.

    Raises:
        MotionkitError: Neither says, or the file's number is none.
    """
    fps = document.head.get("FPS")
    if fps is None:
        if given > 0:
            return given, [f"the file has no FPS; {given:g} frames per second were taken, as given."]
        raise MotionkitError(f"{document.origin} has no FPS.", fix="write FPS into the file, or pass --source-fps.")
    low, high = RATES
    if not is_number(fps) or not low <= fps <= high:
        said = f"{fps!r}"[:40]
        raise MotionkitError(f"{document.origin}: FPS is {said}; a number from {low:g} to {high:g} was expected.")
    return float(fps), []


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value from a file is a finite number that a float can hold."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


_EXPECTED = "a motion is a table with FPS and Frames, a list of tables with BoneRotations."


def _shape(sizes: Sequence[int]) -> str:
    return "x".join("N" if size < 0 else str(size) for size in sizes) if sizes else "of a single number"


def _reason(value: object, error: Exception) -> str:
    """Say which row of a ragged table differs, or what else numpy found."""
    if isinstance(value, list) and all(isinstance(row, list) for row in value):
        lengths = [len(row) for row in value]
        usual = max(set(lengths), key=lengths.count)
        odd = [place for place, length in enumerate(lengths) if length != usual]
        if odd:
            return f"its row {odd[0]} has {lengths[odd[0]]} numbers, the others have {usual}."
    return str(error)
