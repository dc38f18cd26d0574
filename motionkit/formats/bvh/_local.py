"""From channel values to the local rotation and translation of every joint."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.formats.bvh._hierarchy import POSITIONS, Hierarchy

Entry = float | Tensor


def to_local(tree: Hierarchy, values: Tensor) -> tuple[Tensor, Tensor]:
    """Turn channel values into local motion.

    Args:
        tree: The joints.
        values: ``[T, channels]`` float64, degrees and the file's unit.

    Returns:
        Rotations ``[T, J, 3, 3]`` (identity where a joint has no rotation channel) and translations ``[T, J, 3]``: the
        OFFSET, unless position channels replace it.
    """
    frames, joints = len(values), len(tree.names)
    translations = torch.tensor(tree.offsets, dtype=torch.float64).flatten().repeat(frames, 1)
    rotations = torch.zeros(frames, joints, 9, dtype=torch.float64)
    rotations[..., ::4] = 1.0
    groups: dict[str, tuple[list[int], list[list[int]]]] = {}
    moved: list[int] = []
    sources: list[int] = []
    column = 0
    for joint, channels in enumerate(tree.channels):
        order, columns = "", []
        for name in channels:
            if name in POSITIONS:
                moved.append(3 * joint + POSITIONS.index(name))
                sources.append(column)
            else:
                order += name[0]
                columns.append(column)
            column += 1
        if order:
            members, places = groups.setdefault(order, ([], []))
            members.append(joint)
            places.append(columns)
    translations[:, moved] = values[:, sources]
    for order, (members, places) in groups.items():
        angles = values[:, torch.tensor(places).T.flatten()].view(frames, len(order), len(members))
        rotations[:, members] = euler_to_matrix(order, (angles * (math.pi / 180)).unbind(dim=1))
    return rotations.view(frames, joints, 3, 3), translations.view(frames, joints, 3)


def euler_to_matrix(order: str, angles: Sequence[Tensor]) -> Tensor:
    """Return ``R_first @ R_second @ ...``: each turn is about the axis as the turns before it left it.

    Entries of the product are kept apart, so that the zeros and ones of a turn about an axis cost nothing.

    Args:
        order: One to three letters of ``XYZ``, the first turn first.
        angles: One tensor of radians per letter, all of one shape.

    Returns:
        ``[..., 9]`` matrices, row by row.
    """
    rows: list[list[Entry]] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for axis, angle in zip(order, angles, strict=True):
        cos, sin = angle.cos(), angle.sin()
        j, k = {"X": (1, 2), "Y": (2, 0), "Z": (0, 1)}[axis]
        for row in rows:
            row[j], row[k] = (
                _sum(_times(row[j], cos), _times(row[k], sin)),
                _difference(_times(row[k], cos), _times(row[j], sin)),
            )
    shape = angles[0]
    entries = [entry if isinstance(entry, Tensor) else torch.full_like(shape, entry) for row in rows for entry in row]
    return torch.stack(entries, dim=-1)


def _times(entry: Entry, factor: Tensor) -> Entry:
    if isinstance(entry, Tensor):
        return entry * factor
    return factor if entry == 1.0 else 0.0


def _sum(a: Entry, b: Entry) -> Entry:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a + b
    return a if isinstance(a, Tensor) else b


def _difference(a: Entry, b: Entry) -> Entry:
    if isinstance(b, Tensor):
        return a - b if isinstance(a, Tensor) else -b
    return a
