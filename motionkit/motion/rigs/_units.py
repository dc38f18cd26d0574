"""Units of length that motion files come in."""

from __future__ import annotations

import math
from typing import NamedTuple


class LengthUnit(NamedTuple):
    """A unit of length.

    Attributes:
        words: Its name.
        metres: Metres per unit.
    """

    words: str
    metres: float


UNITS = {
    "m": LengthUnit("metres", 1.0),
    "dm": LengthUnit("decimetres", 0.1),
    "asf": LengthUnit("ASF units", 0.0254 / 0.45),
    "in": LengthUnit("inches", 0.0254),
    "cm": LengthUnit("centimetres", 0.01),
    "mm": LengthUnit("millimetres", 0.001),
}
"""By abbreviation. CMU's ASF files, and the BVH files made from them, measure in inches of a body at 0.45 scale."""


def nearest_unit(length: float, metres: float) -> str:
    """Return the unit in which a length that is about `metres` long is written as `length` (more than 0)."""
    return min(UNITS, key=lambda name: abs(math.log(length * UNITS[name].metres / metres)))
