"""The random crop of training motions."""

from __future__ import annotations

import random
from collections.abc import Callable


def crop_range(
    frames: int,
    rng: random.Random,
    *,
    unit: int = 4,
    max_length: int = 196,
    double: Callable[[], bool] | None = None,
) -> tuple[int, int]:
    """Draw the part of a motion that one visit to it uses (rule of the text-to-motion loaders, Guo et al. 2022).

    The length is the largest multiple of `unit` that fits, and with chance 1/3 one unit less; the start is uniform.

    Args:
        frames: Length of the motion.
        rng: Source of the start, and of the coin when `double` is not given.
        unit: Frames per unit.
        max_length: Longest result.
        double: The coin: True takes one unit off.

    Returns:
        ``(start, length)``; the whole motion when it is shorter than a unit.
    """
    shorter = double() if double is not None else rng.randrange(3) == 2
    units = min(frames, max_length) // unit
    length = (units - (1 if shorter and units > 1 else 0)) * unit or frames
    return rng.randint(0, frames - length), length
