"""Conventions that an exported motion declares: units, axes, handedness, and columns of its 6D rotations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion.clip import Axis
from motionkit.rigs.detect import unit_called
from motionkit.rigs.upright import axis_of, turn_up

_DIRECTIONS = {
    "forward": (0.0, 0.0, 1.0),
    "backward": (0.0, 0.0, -1.0),
    "right": (-1.0, 0.0, 0.0),
    "left": (1.0, 0.0, 0.0),
    "up": (0.0, 1.0, 0.0),
    "down": (0.0, -1.0, 0.0),
}
"""The words of ``meta.axes`` in house space; a body that faces +Z has its right hand at -X."""

_NEAR = 1e-3
"""Sine of the angle between the two columns below which they are collinear."""

_NEAR_REST = math.cos(math.radians(25.0))
"""Cosine of the largest angle at which a bone is near its rest pose."""


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

    def house(self, axis: Axis) -> Axis:
        """Return the direction in house space of a direction in the file's coordinates."""
        return _along(self.matrix @ turn_up(axis)[1])

    def named(self, axis: Axis) -> Axis:
        """Return the direction in the file's coordinates of a direction in house space."""
        return _along(self.matrix.T @ turn_up(axis)[1])

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


def _along(direction: Tensor) -> Axis:
    axis = axis_of(direction)
    assert axis is not None, "axes are parallel to those of house space"
    return axis


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


def rot6d_of(spec: object, chosen: str, origin: str) -> tuple[Rot6d, list[str]]:
    """Read ``meta.rot6d_spec``.

    Args:
        spec: The table; None if the file has none.
        chosen: The columns that the user chose, such as ``xz``; ``auto`` takes the file's.
        origin: The file, for messages.

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


def columns_warning(six: Tensor, rot6d: Rot6d) -> list[str]:
    """Return a warning if rotations look wrong under the chosen columns and right under others.

    Most bones of a person stay near their rest pose. With wrong columns nearly all of them are a quarter turn away.

    Args:
        six: ``[T, N, 6]``.
        rot6d: The convention that was chosen.
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
