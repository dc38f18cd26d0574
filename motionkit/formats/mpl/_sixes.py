"""Six numbers of a rotation: which two columns they are, and back to matrices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError

_NEAR = 1e-3
"""A second column closer than this to the first one's line (as a sine) leaves the third open."""


_NEARLY = math.cos(math.radians(25.0))
"""Cosine of the angle up to which a bone is at rest."""


@dataclass(frozen=True)
class Sixes:
    """A convention for rotations as six numbers.

    Attributes:
        columns: Two of ``x``, ``y``, ``z``: which axes the first and the last three numbers are.
        rows: They are rows of the matrix instead of columns (its transpose).
    """

    columns: str = "xy"
    rows: bool = False

    def matrices(self, six: Tensor) -> Tensor:
        """Return rotation matrices ``[..., 3, 3]`` of ``[..., 6]``, by Gram-Schmidt from the first column.

        The third column follows so that the determinant is 1. It is so in left-handed coordinates too: there the
        three axes turn the other way in space, but their numbers do not. Where the two columns lie on one line the
        result is not finite.
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


def doubt(six: Tensor, sixes: Sixes) -> list[str]:
    """Return a warning when the six numbers look like other columns.

    Many bones of a body hardly turn from rest. Under the right columns their matrices are near the identity, under
    any other they are off by the same quarter turns or more.

    Args:
        six: ``[T, N, 6]``.
        sixes: The convention that was chosen.
    """
    if six.shape[1] < 5:
        return []
    sample = six[:: max(1, len(six) // 30)]

    def at_rest(convention: Sixes) -> float:
        trace = convention.matrices(sample).diagonal(dim1=-2, dim2=-1).sum(-1).nanmean(0)
        return float((trace > 1.0 + 2.0 * _NEARLY).double().mean())

    chosen = at_rest(sixes)
    best, columns = max((at_rest(Sixes(a + b, sixes.rows)), a + b) for a, b in itertools.permutations("xyz", 2))
    if best < 0.3 or chosen > 0.1:
        return []
    return [
        f"{best:.0%} of the bones are near their rest pose if the 6D rotations are columns {columns.upper()}, "
        f"{chosen:.0%} as {sixes.columns.upper()}: look at the motion, or pass --rot6d-columns {columns}."
    ]


def sixes_of(spec: object, wanted: str, origin: str) -> tuple[Sixes, list[str]]:
    """Read ``meta.rot6d_spec``.

    Args:
        spec: The table; None when the file has none.
        wanted: What the user says the columns are, such as ``xz``; ``auto`` for what the file says.
        origin: The file, for messages.

    Returns:
        The convention (X then Y when nobody says), and warnings.

    Raises:
        MotionkitError: The table says something that is not known.
    """
    if not isinstance(spec, Mapping):
        if wanted != "auto":
            return Sixes(wanted), []
        return Sixes(), [
            "meta.rot6d_spec is missing: the six numbers of a rotation were taken for the X and Y columns; "
            "--rot6d-columns xz if they are X and Z."
        ]
    columns = spec.get("columns")
    if not isinstance(columns, list | tuple) or len(columns) != 2:
        raise MotionkitError(f"{origin}: meta.rot6d_spec.columns is {columns!r}; two of X, Y and Z were expected.")
    named = "".join(str(column).lower() for column in columns)
    if len(named) != 2 or named[0] == named[1] or not set(named) <= set("xyz"):
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
    if wanted not in ("auto", named):
        warnings.append(
            f"the file says that its 6D rotations are columns {named.upper()}; --rot6d-columns {wanted} was followed."
        )
        named = wanted
    return Sixes(named, layout == "rows_are_axes"), warnings
