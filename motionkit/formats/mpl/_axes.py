"""Between the axes of an exported file and house space: metres, right-handed, Y up, +Z forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rigs._units import unit_called

_DIRECTIONS = {
    "forward": (0.0, 0.0, 1.0),
    "backward": (0.0, 0.0, -1.0),
    "right": (-1.0, 0.0, 0.0),
    "left": (1.0, 0.0, 0.0),
    "up": (0.0, 1.0, 0.0),
    "down": (0.0, -1.0, 0.0),
}
"""What the words of ``meta.axes`` are in house space; a body that faces +Z has its right hand at -X."""


@dataclass(frozen=True)
class Axes:
    """How a file's coordinates lie in house space.

    Attributes:
        matrix: ``[3, 3]``; its columns are the file's x, y and z in house space. Determinant -1 for a left-handed
            file.
        unit: Metres per unit of length.
    """

    matrix: Tensor
    unit: float = 1.0

    @property
    def handedness(self) -> str:
        """``left`` or ``right``."""
        return "right" if float(torch.linalg.det(self.matrix)) > 0 else "left"

    @property
    def up(self) -> int:
        """Which of the file's axes is vertical: 0, 1 or 2."""
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

        The sign is the one of the usual matrix about that axis: in Unreal's axes a positive yaw turns forward (x)
        towards right (y).
        """
        first, second = (self.up + 1) % 3, (self.up + 2) % 3
        matrix = torch.zeros(*angle.shape, 3, 3, dtype=angle.dtype)
        matrix[..., self.up, self.up] = 1.0
        matrix[..., first, first] = matrix[..., second, second] = angle.cos()
        matrix[..., second, first] = angle.sin()
        matrix[..., first, second] = -angle.sin()
        return matrix

    def angle(self, vectors: Tensor) -> Tensor:
        """Return by which yaw a file's forward direction has been turned to point along ``[..., 3]`` file vectors."""
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
        meta: The file's meta table; what it does not say is Unreal's: metres, x forward, y right, z up.
        origin: The file, for messages.

    Returns:
        The axes, and a warning for each thing that was assumed although the file says something near it.

    Raises:
        MotionkitError: An unknown unit or direction, two axes for one direction, or axes that are not of the
            declared handedness.
    """
    unit = unit_called(str(meta.get("units") or "meters"))
    if unit is None:
        raise MotionkitError(
            f"{origin}: meta.units is {meta['units']!r}.", why="known units are meters, centimeters, millimeters, ..."
        )
    declared = meta.get("axes")
    words = ("forward", "right", "up")
    if isinstance(declared, Mapping):
        found = [str(declared.get(name, "")).lower() for name in "xyz"]
        kinds = {word.replace("backward", "forward").replace("left", "right").replace("down", "up") for word in found}
        if kinds != set(words):
            raise MotionkitError(
                f"{origin}: meta.axes is x {found[0] or '-'}, y {found[1] or '-'}, z {found[2] or '-'}.",
                why="each axis is forward, backward, right, left, up or down, and no two lie on one line.",
            )
        words = (found[0], found[1], found[2])
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
