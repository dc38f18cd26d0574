"""Fields of a motion over all its frames: the common part of JSON and npz, and the JSON file."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion.motion import RATES, finite_frames, nearest_finite
from motionkit.rigs.rest import unit_called

# Conventions that a file declares: units, axes, handedness, and columns of 6D rotations.


_DIRECTIONS = {
    "forward": (0.0, 0.0, 1.0),
    "backward": (0.0, 0.0, -1.0),
    "right": (-1.0, 0.0, 0.0),
    "left": (1.0, 0.0, 0.0),
    "up": (0.0, 1.0, 0.0),
    "down": (0.0, -1.0, 0.0),
}
"""The words of ``meta.axes`` in house space; a body that faces +Z has its right hand at -X."""


@dataclass(frozen=True)
class Axes:
    """A file's coordinate system, relative to house space."""

    # ``[3, 3]``; its columns are the file's x, y and z in house space. Determinant -1 for a left-handed file.
    matrix: Tensor
    unit: float = 1.0  # Metres per unit of length

    @property
    def handedness(self) -> str:
        """``left`` or ``right``."""
        return "right" if float(torch.linalg.det(self.matrix)) > 0 else "left"

    @property
    def up(self) -> int:
        """The file's vertical axis: 0, 1 or 2."""
        return int(self.matrix[1].abs().argmax())

    @property
    def ground(self) -> tuple[int, int]:
        """The file's two horizontal axes, in order of the alphabet."""
        first, second = (axis for axis in range(3) if axis != self.up)
        return first, second

    def points(self, values: Tensor) -> Tensor:
        """Bring places, velocities or offsets ``[..., 3]`` (in metres already) into house space."""
        return values @ self.matrix.T

    def points_back(self, values: Tensor) -> Tensor:
        """Undo `points`."""
        return values @ self.matrix

    def turns(self, rotations: Tensor) -> Tensor:
        """Bring rotation matrices ``[..., 3, 3]`` into house space."""
        return self.matrix @ rotations @ self.matrix.T

    def turns_back(self, rotations: Tensor) -> Tensor:
        """Undo `turns`."""
        return self.matrix.T @ rotations @ self.matrix

    def yaw(self, angle: Tensor) -> Tensor:
        """Return turns ``[..., 3, 3]`` about the file's vertical axis, in the file's coordinates.

        The sign is that of the usual matrix about that axis: in Unreal's axes a positive yaw turns forward (x) towards
        right (y).
        """
        first, second = (self.up + 1) % 3, (self.up + 2) % 3
        matrix = torch.zeros(*angle.shape, 3, 3, dtype=angle.dtype)
        matrix[..., self.up, self.up] = 1.0
        matrix[..., first, first] = matrix[..., second, second] = angle.cos()
        matrix[..., second, first] = angle.sin()
        matrix[..., first, second] = -angle.sin()
        return matrix

    def angle(self, vectors: Tensor) -> Tensor:
        """Return the yaw from the file's forward direction to ``[..., 3]`` vectors in the file's coordinates."""
        forward = self.points_back(torch.tensor(_DIRECTIONS["forward"], dtype=vectors.dtype))
        first, second = (self.up + 1) % 3, (self.up + 2) % 3
        turned = torch.atan2(vectors[..., second], vectors[..., first])
        turned = turned - torch.atan2(forward[second], forward[first])
        return torch.atan2(turned.sin(), turned.cos())


def _matrix(words: tuple[str, str, str]) -> Tensor:
    return torch.tensor([_DIRECTIONS[word] for word in words], dtype=torch.float64).T


UNREAL = Axes(_matrix(("forward", "right", "up")))
"""Unreal's axes in metres: x forward, y right, z up, left-handed."""


def axes_of(meta: Mapping[str, object], origin: str) -> tuple[Axes, list[str]]:
    """Read ``meta.units``, ``meta.axes`` and ``meta.handedness``.

    Args:
        meta: The file's meta table; defaults are Unreal's: metres, x forward, y right, z up.
        origin: The file, for messages.

    Returns:
        The axes, and a warning if an incomplete declaration was completed.
    """
    unit = unit_called(str(meta.get("units") or "meters"))
    if unit is None:
        raise MotionkitError(
            f"{origin}: meta.units is {meta['units']!r}.", why="known units are meters, centimeters, millimeters, ..."
        )
    declared = meta.get("axes")
    words = ("forward", "right", "up")
    if isinstance(declared, Mapping):
        named = [str(declared.get(name, "")).lower() for name in "xyz"]
        kinds = {word.replace("backward", "forward").replace("left", "right").replace("down", "up") for word in named}
        if kinds != set(words):
            raise MotionkitError(
                f"{origin}: meta.axes is x {named[0] or '-'}, y {named[1] or '-'}, z {named[2] or '-'}.",
                why="each axis is forward, backward, right, left, up or down, and no two are parallel.",
            )
        words = (named[0], named[1], named[2])
    axes = Axes(_matrix(words), unit.metres)
    handedness = str(meta.get("handedness") or axes.handedness).lower()
    if handedness not in ("left", "right"):
        raise MotionkitError(f"{origin}: meta.handedness is {meta['handedness']!r}; it is left or right.")
    if handedness == axes.handedness:
        return axes, []
    if not isinstance(declared, Mapping):
        flipped = Axes(_matrix(("forward", "left", "up")), unit.metres)
        return flipped, ["meta.handedness is right and meta.axes is missing; y was taken to be left."]
    raise MotionkitError(
        f"{origin}: meta.handedness is {handedness}, but axes with x {words[0]}, y {words[1]}, z {words[2]} are "
        f"{axes.handedness}-handed.",
        why="one of the two is wrong, and the motion would be mirrored.",
        fix="correct meta.handedness or meta.axes in the file.",
    )


_NEAR = 1e-3
"""Sine of the angle between the two columns below which they are collinear."""

_NEAR_REST = math.cos(math.radians(25.0))
"""Cosine of the largest angle at which a bone is near its rest pose."""


@dataclass(frozen=True)
class Rot6d:
    """A convention for rotations as six numbers."""

    columns: str = "xy"  # Two of ``x``, ``y``, ``z``: which axes the first and the last three numbers are
    rows: bool = False  # They are rows of the matrix instead of columns (its transpose)

    def matrices(self, six: Tensor) -> Tensor:
        """Return rotation matrices ``[..., 3, 3]`` of ``[..., 6]``, by Gram-Schmidt from the first column.

        The third column makes the determinant 1, in left-handed coordinates as well: their axes are mirrored in space,
        but their numbers are not. If the two columns are collinear the result is NaN.
        """
        first = six[..., :3] / six[..., :3].norm(dim=-1, keepdim=True)
        second = six[..., 3:] - (first * six[..., 3:]).sum(-1, keepdim=True) * first
        size = second.norm(dim=-1, keepdim=True)
        second = torch.where(size > _NEAR * six[..., 3:].norm(dim=-1, keepdim=True), second / size, torch.nan)
        places = ["xyz".index(axis) for axis in self.columns]
        third = torch.linalg.cross(first, second, dim=-1)
        if (places[1] - places[0]) % 3 == 2:
            third = -third
        parts = {places[0]: first, places[1]: second, 3 - sum(places): third}
        matrix = torch.stack([parts[place] for place in range(3)], dim=-1)
        return matrix.transpose(-1, -2) if self.rows else matrix

    def numbers(self, rotations: Tensor) -> Tensor:
        """Return ``[..., 6]`` of matrices ``[..., 3, 3]``."""
        matrix = rotations.transpose(-1, -2) if self.rows else rotations
        return torch.cat([matrix[..., "xyz".index(axis)] for axis in self.columns], dim=-1)


def columns_warning(
    six: Tensor,  # [T, N, 6]
    rot6d: Rot6d,  # the convention that was chosen
) -> list[str]:
    """Return a warning if rotations look wrong under the chosen columns and right under others.

    Most bones of a person stay near their rest pose. With wrong columns nearly all of them are a quarter turn away.
    """
    if six.shape[1] < 5:
        return []
    sample = six[:: max(1, len(six) // 30)]

    def at_rest(convention: Rot6d) -> float:
        # The trace of a rotation by an angle a is 1 + 2 cos(a); mean over frames, share over bones.
        trace = convention.matrices(sample).diagonal(dim1=-2, dim2=-1).sum(-1).nanmean(0)
        return float((trace > 1.0 + 2.0 * _NEAR_REST).double().mean())

    chosen = at_rest(rot6d)
    best, columns = max((at_rest(Rot6d(a + b, rot6d.rows)), a + b) for a, b in itertools.permutations("xyz", 2))
    if best < 0.3 or chosen > 0.1:
        return []
    return [
        f"{best:.0%} of the bones are near their rest pose if the 6D rotations are columns {columns.upper()}, "
        f"{chosen:.0%} as {rot6d.columns.upper()}: look at the motion, or pass --rot6d-columns {columns}."
    ]


def rot6d_of(
    spec: object,  # the table; None if the file has none
    chosen: str,  # the columns that the user chose, such as ``xz``; ``auto`` takes the file's
    origin: str,  # the file, for messages
) -> tuple[Rot6d, list[str]]:
    """Read ``meta.rot6d_spec``.

    Returns:
        The convention (X then Y by default), and warnings.
    """
    if not isinstance(spec, Mapping):
        if chosen != "auto":
            return Rot6d(chosen), []
        return Rot6d(), [
            "meta.rot6d_spec is missing: the six numbers of a rotation were taken for the X and Y columns; "
            "--rot6d-columns xz if they are X and Z."
        ]
    columns = spec.get("columns")
    parts = [str(column).lower() for column in columns] if isinstance(columns, list | tuple) else []
    named = "".join(parts)
    if len(parts) != 2 or len(named) != 2 or named[0] == named[1] or not set(named) <= set("xyz"):
        raise MotionkitError(f"{origin}: meta.rot6d_spec.columns is {columns!r}; two of X, Y and Z were expected.")
    order = str(spec.get("order", "A_then_B"))
    if order not in ("A_then_B", "B_then_A"):
        raise MotionkitError(
            f"{origin}: meta.rot6d_spec.order is {order!r}.", why="known orders are A_then_B and B_then_A."
        )
    layout = str(spec.get("matrix_layout", "columns_are_axes"))
    if layout not in ("columns_are_axes", "rows_are_axes"):
        raise MotionkitError(
            f"{origin}: meta.rot6d_spec.matrix_layout is {layout!r}.",
            why="known layouts are columns_are_axes and rows_are_axes.",
        )
    named = named[::-1] if order == "B_then_A" else named
    warnings = []
    if chosen not in ("auto", named):
        warnings.append(f"by the file its 6D rotations are columns {named.upper()}; --rot6d-columns {chosen} was used.")
        named = chosen
    return Rot6d(named, layout == "rows_are_axes"), warnings


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
        if not kind and len(data) > 1 and all(isinstance(value, str) for value in data.values()):
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
    """Return frames per second, the file's or else the given ones (0 for none); and warnings."""
    fps = fields.head.get("FPS")
    if fps is None:
        if given > 0:
            return given, [f"the file has no FPS; {given:g} frames per second were taken, as given."]
        raise MotionkitError(f"{fields.origin} has no FPS.", fix="write FPS into the file, or pass --source-fps.")
    low, high = RATES
    if not is_number(fps) or not low <= fps <= high:
        shown = f"{fps!r}"[:40]
        raise MotionkitError(f"{fields.origin}: FPS is {shown}; a number from {low:g} to {high:g} was expected.")
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
    """Return which row of a ragged table differs, or numpy's error."""
    if isinstance(value, list) and all(isinstance(row, list) for row in value):
        lengths = [len(row) for row in value]
        usual = max(set(lengths), key=lengths.count)
        odd = [place for place, length in enumerate(lengths) if length != usual]
        if odd:
            return f"its row {odd[0]} has {lengths[odd[0]]} numbers, the others have {usual}."
    return str(error)
