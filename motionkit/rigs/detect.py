"""Units of length, and the unit and vertical axis of a motion whose file names neither, found from the body in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.geometry import positions_from_bones
from motionkit.motion.clip import Axis, ReadOptions
from motionkit.motion.motion import END, Motion, finite_part, finite_warning
from motionkit.rigs.roles import find_roles, hip_to_ankle
from motionkit.rigs.upright import AXES, Upright, axis_of, lies_at_rest, trunk_of, turn_motion, weigh


class LengthUnit(NamedTuple):
    """A unit of length."""

    words: str  # Its name
    metres: float  # Metres per unit
    aliases: tuple[str, ...] = ()  # Other names in files, in lower case


UNITS = {
    "m": LengthUnit("metres", 1.0, ("meters", "meter", "metre")),
    "dm": LengthUnit("decimetres", 0.1, ("decimeters", "decimeter", "decimetre")),
    "asf": LengthUnit("ASF units", 0.0254 / 0.45),
    "in": LengthUnit("inches", 0.0254, ("inch",)),
    "cm": LengthUnit("centimetres", 0.01, ("centimeters", "centimeter", "centimetre")),
    "mm": LengthUnit("millimetres", 0.001, ("millimeters", "millimeter", "millimetre")),
}
"""By abbreviation. CMU's ASF files, and the BVH files made from them, measure in inches of a body at 0.45 scale."""

PERSON_LEG = 0.82
"""Metres from hip to ankle along the leg of an adult, to guess units by."""

_NO_MORE: Mapping[str, LengthUnit] = {}

_PERSON = 0.35, 1.35
"""Metres from hip to ankle of a toddler and a giant; outside, the guess is doubtful."""

_HEIGHT = 1.75
_HEIGHT_SPREAD = 1.5

ANIMAL = (
    "its spine is level and its legs stand in the rest pose, as an animal's do: --rig and data sets would make it walk "
    "as a person."
)

_LOOKS = 32
"""Number of frames that are looked at first, spread over the motion."""

_LONGEST = 36_000
"""Most frames that are weighed where those do not stand as the rest pose does: five minutes at 120 a second."""


def unit_called(name: str) -> LengthUnit | None:
    """Return the unit with a name, in any usual spelling and case; None if unknown."""
    word = name.strip().lower()
    return next((unit for short, unit in UNITS.items() if word in (short, unit.words.lower(), *unit.aliases)), None)


def nearest_unit(length: float, metres: float, more: Mapping[str, LengthUnit] = _NO_MORE) -> str:
    """Return the unit in which a length that is about `metres` long is written as `length` (more than 0)."""
    units = {**UNITS, **more}
    return min(units, key=lambda name: abs(math.log(length * units[name].metres / metres)))


def find_unit(motion: Motion) -> tuple[str, str]:
    """Guess the unit of a motion: the one in which its legs, or else its rest pose, have a person's size.

    Returns:
        A key of `UNITS`, and a warning or an empty text. If there are no legs and no unit fits, it is centimetres, the
        unit of most files.
    """
    leg = motion_leg(motion)
    if leg > 0:
        unit = nearest_unit(leg, PERSON_LEG)
        metres = leg * UNITS[unit].metres
        if _PERSON[0] < metres < _PERSON[1]:
            return unit, ""
        return unit, f"its legs are {metres:.2g} m long if its unit is {UNITS[unit].words}: pass --units if it is not"
    height = rest_extent(motion)
    if height > 0:
        unit = nearest_unit(height, _HEIGHT)
        metres = height * UNITS[unit].metres
        if 1 / _HEIGHT_SPREAD < metres / _HEIGHT < _HEIGHT_SPREAD:
            return (
                unit,
                f"no legs are known by name; {UNITS[unit].words} make it {metres:.2f} m high: pass --units",
            )
    return "cm", "no legs are known by name, so its unit is not known: centimetres were taken, pass --units if not"


def in_metres(
    motion: Motion,  # as the file has it
    finite: Tensor,  # [T] which frames are finite
    options: ReadOptions,  # unit and vertical axis; ``auto`` guesses them
    guess_unit: Callable[[Motion], tuple[str, str]] = find_unit,
) -> tuple[Motion, dict[str, str], list[str]]:
    """Return a motion in metres, Y up, with notes for the record and warnings."""
    clean = finite_part(motion, finite)
    up, doubt = Upright(options.up) if options.up != "auto" else find_up(clean)
    unit, guess = (options.unit, "") if options.unit != "auto" else guess_unit(clean)
    scale = UNITS[unit].metres
    motion = replace(motion, offsets=motion.offsets * scale, translations=motion.translations * scale)
    motion = turn_motion(motion, up, rest_up(motion))
    notes = {
        "unit": UNITS[unit].words,
        "fps": f"{motion.fps:g}",
        "frames": str(motion.frames),
        "joints": str(sum(not name.endswith(END) for name in motion.names)),
        "up": up,
    }
    animal = ANIMAL if lies_at_rest(motion) else ""
    return motion, notes, [*finite_warning(finite), *filter(None, (doubt, guess, animal))]


def motion_leg(motion: Motion) -> float:
    """Return the length of the legs in the first frame; 0 if they are unknown by name."""
    return hip_to_ankle(find_roles(motion.names, motion.parents), motion.cut(0, 1).positions()[0])


def rest_extent(motion: Motion) -> float:
    """Return the largest extent of the rest pose along an axis."""
    rest = positions_from_bones(motion.offsets, motion.parents)
    return float((rest.amax(dim=0) - rest.amin(dim=0)).max())


def find_up(motion: Motion) -> Upright:
    """Find which way is up in a motion as it stands in its file, by its rest pose and how it moves; see `upright`.

    A rest pose along Y or Z gives the default, else it is Y. A rest pose along another axis counts where the motion
    agrees with it: bones of many programs have their own axes at rest, and it says nothing.
    """
    rest = rest_up(motion)
    default: Axis = "z" if rest == "z" else "y"
    looks = torch.linspace(0, motion.frames - 1, min(motion.frames, _LOOKS), dtype=torch.float64).round().long()
    few = replace(motion, rotations=motion.rotations[looks], translations=motion.translations[looks], tracks={})
    trunk = trunk_of(few.positions(), motion.names, motion.parents)
    if trunk is None or axis_of(trunk.median(dim=0).values) == default:
        return Upright(default)
    places = motion.cut(0, min(motion.frames, _LONGEST)).positions()
    usual = {"y"} if rest == "z" else {rest} - {None}
    return weigh(places, motion.names, motion.parents, motion.fps, default, [axis for axis in AXES if axis in usual])


def rest_up(motion: Motion) -> Axis | None:
    """Return the axis that is up in the rest pose by its legs, or by its trunk without legs; None if unclear."""
    roles = find_roles(motion.names, motion.parents)
    places = positions_from_bones(motion.offsets, motion.parents)
    legs = [
        places[roles[f"{side} hip"]] - places[roles[f"{side} ankle"]]
        for side in ("left", "right")
        if f"{side} hip" in roles and f"{side} ankle" in roles
    ]
    if legs:
        up = torch.stack(legs).sum(dim=0)
    elif "head" in roles:
        up = places[roles["head"]] - places[roles["pelvis"]]
    else:
        return None
    return axis_of(torch.nn.functional.normalize(up, dim=0))
