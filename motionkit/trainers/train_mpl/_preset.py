"""``--preset``: the guide's sizes for small, medium and large data. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from motionkit.config import Preset

Size = Literal["small", "medium", "large"]


@dataclass(frozen=True)
class SizeRow:
    """What the guide recommends for data of one size.

    Attributes:
        frames: Frames of data below which it is meant.
        stages: Fewest and most stages.
        values: Settings, by dotted key.
    """

    frames: float
    stages: tuple[int, int]
    values: Mapping[str, float]


def _row(frames: float, stages: tuple[int, int], *values: float) -> SizeRow:
    keys = ("optim.learning_rate", "train.batch_size", "train.seq_len", "model.dropout", "optim.weight_decay")
    return SizeRow(frames, stages, dict(zip(keys, values, strict=True)))


SIZES: Mapping[Size, SizeRow] = {
    "small": _row(1_000, (2, 3), 1e-4, 4, 40, 0.3, 1e-4),
    "medium": _row(10_001, (3, 4), 3e-4, 8, 60, 0.1, 1e-5),
    "large": _row(float("inf"), (5, 1_000), 5e-4, 16, 120, 0.05, 0.0),
}
"""The guide's table, section on tuning: below 1000 frames, to 10000, and above."""


def size_of(frames: int) -> Size:
    """Return which size data of so many frames are."""
    return next(name for name, row in SIZES.items() if frames < row.frames)


def find_preset(asked: Any) -> Preset | None:
    """Return the values of a preset; None where none is asked for, or none of that name exists."""
    name = str(asked).strip().lower() if asked is not None else ""
    if name not in get_args(Size):
        return None
    values = SIZES[name].values  # type: ignore[index]
    known = min(25, int(values["train.seq_len"]) // 2)
    return Preset(f"preset {name}", {**values, "train.known": known}, "the guide's sizes; what was given wins")
