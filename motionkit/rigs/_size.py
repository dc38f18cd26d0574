"""Finding a file's unit by the size of what moves in it."""

from __future__ import annotations

from motionkit.geometry import positions_from_bones
from motionkit.motion._motion import Motion
from motionkit.rigs._bodymap import leg_length
from motionkit.rigs._roles import find_roles
from motionkit.rigs._units import PERSON_LEG, UNITS, nearest_unit

_PERSON = 0.35, 1.35
"""Metres from hip to ankle that a toddler and a giant have; outside, the guess is doubtful."""

_HEIGHT = 1.75
_HEIGHT_DOUBT = 1.5


def find_unit(motion: Motion) -> tuple[str, str]:
    """Guess the unit of a motion: the one in which its legs, or else the whole of it, are as long as a person's.

    Args:
        motion: A motion in an unknown unit.

    Returns:
        A key of `UNITS`, and a warning or an empty text. Where there are no legs and no unit makes a person's height
        of the rest pose, it is centimetres, which most files are in.
    """
    leg = leg_length(find_roles(motion.names, motion.parents), motion.cut(0, 1).positions()[0])
    if leg > 0:
        unit = nearest_unit(leg, PERSON_LEG)
        metres = leg * UNITS[unit].metres
        if _PERSON[0] < metres < _PERSON[1]:
            return unit, ""
        return unit, f"its legs are {metres:.2g} m long if its unit is {UNITS[unit].words}: pass --units if it is not"
    rest = positions_from_bones(motion.offsets, motion.parents)
    height = float((rest.amax(dim=0) - rest.amin(dim=0)).max())
    if height > 0:
        unit = nearest_unit(height, _HEIGHT)
        metres = height * UNITS[unit].metres
        if 1 / _HEIGHT_DOUBT < metres / _HEIGHT < _HEIGHT_DOUBT:
            return (
                unit,
                f"no legs are known by name; {UNITS[unit].words} make it {metres:.2f} m high: pass --units",
            )
    return "cm", "no legs are known by name, so its unit is not known: centimetres were taken, pass --units if not"
