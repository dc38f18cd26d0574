"""Units of length that motion files come in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple


class LengthUnit(NamedTuple):
    """A unit of length.

    Attributes:
        words: Its name.
        metres: Metres per unit.
        aliases: What files call it besides its name and abbreviation, in small letters.
    """

    words: str
    metres: float
    aliases: tuple[str, ...] = ()


UNITS = {
    "m": LengthUnit("metres", 1.0, ("meters", "meter", "metre")),
    "dm": LengthUnit("decimetres", 0.1, ("decimeters", "decimeter", "decimetre")),
    "asf": LengthUnit("ASF units", 0.0254 / 0.45),
    "in": LengthUnit("inches", 0.0254, ("inch",)),
    "cm": LengthUnit("centimetres", 0.01, ("centimeters", "centimeter", "centimetre")),
    "mm": LengthUnit("millimetres", 0.001, ("millimeters", "millimeter", "millimetre")),
}
"""By abbreviation. CMU's ASF files, and the BVH files made from them, measure in inches of a body at 0.45 scale."""

_NO_MORE: Mapping[str, LengthUnit] = {}

PERSON_LEG = 0.82
"""Metres from hip to ankle along the leg of an adult: what units are guessed from."""


def unit_called(name: str) -> LengthUnit | None:
    """Return the unit of a name in any usual spelling and case; None for an unknown name."""
    word = name.strip().lower()
    return next((unit for short, unit in UNITS.items() if word in (short, unit.words.lower(), *unit.aliases)), None)


def nearest_unit(length: float, metres: float, more: Mapping[str, LengthUnit] = _NO_MORE) -> str:
    """Return the unit in which a length that is about `metres` long is written as `length` (more than 0).

    Args:
        length: The length as written.
        metres: The length as it is.
        more: Units that it may be in besides `UNITS`.
    """
    units = {**UNITS, **more}
    return min(units, key=lambda name: abs(math.log(length * units[name].metres / metres)))
