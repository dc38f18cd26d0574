"""Units of length, and the unit and vertical axis of a motion whose file names neither, found from the body in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from motionkit.geometry import positions_from_bones
from motionkit.motion.clip import ReadOptions
from motionkit.motion.motion import END, Motion, finite_part, finite_warning
from motionkit.rigs.roles import find_roles, hip_to_ankle


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

Axis = Literal["y", "z"]
_NO_MORE: Mapping[str, LengthUnit] = {}

_PERSON = 0.35, 1.35
"""Metres from hip to ankle of a toddler and a giant; outside, the guess is doubtful."""

_HEIGHT = 1.75
_HEIGHT_SPREAD = 1.5

_CLEAR = 0.8
"""Least cosine between a direction and its axis: within 37 degrees."""

_LOOKS = 32
"""Number of frames used, spread over the motion."""


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
    up, doubt = (options.up, "") if options.up != "auto" else find_up(clean)
    unit, guess = (options.unit, "") if options.unit != "auto" else guess_unit(clean)
    scale = UNITS[unit].metres
    motion = replace(motion, offsets=motion.offsets * scale, translations=motion.translations * scale)
    if up == "z":
        motion = z_up_to_y_up(motion)
    notes = {
        "unit": UNITS[unit].words,
        "fps": f"{motion.fps:g}",
        "frames": str(motion.frames),
        "joints": str(sum(not name.endswith(END) for name in motion.names)),
        "up": up,
    }
    return motion, notes, [*finite_warning(finite), *filter(None, (doubt, guess))]


def motion_leg(motion: Motion) -> float:
    """Return the length of the legs in the first frame; 0 if they are unknown by name."""
    return hip_to_ankle(find_roles(motion.names, motion.parents), motion.cut(0, 1).positions()[0])


def rest_extent(motion: Motion) -> float:
    """Return the largest extent of the rest pose along an axis."""
    rest = positions_from_bones(motion.offsets, motion.parents)
    return float((rest.amax(dim=0) - rest.amin(dim=0)).max())


def find_up(motion: Motion) -> tuple[Axis, str]:
    """Find the vertical axis of a motion as it stands in its file.

    The rest pose decides: the legs go down from the hips. There is a warning if the motion contradicts it.

    Returns:
        The axis, and a warning or an empty text.
    """
    rest, moving = rest_up(motion), _moving_up(motion, find_roles(motion.names, motion.parents))
    if rest == "z" and moving == "y":
        return "y", "its rest pose stands along Z and its motion along Y: Y was taken as vertical; if not, pass --up z"
    if rest != "z" and moving == "z":
        return "y", "lies along Z for most of the clip: if its vertical is Z, pass --up z"
    return rest or "y", ""


def rest_up(motion: Motion) -> Axis | None:
    """Return the vertical axis of the rest pose by its legs, or by its trunk without legs; None if unclear."""
    roles = find_roles(motion.names, motion.parents)
    places = positions_from_bones(motion.offsets, motion.parents)
    legs = [
        places[roles[f"{side} hip"]] - places[roles[f"{side} ankle"]]
        for side in ("left", "right")
        if f"{side} hip" in roles and f"{side} ankle" in roles
    ]
    if legs:
        return _axis(torch.stack(legs).sum(dim=0))
    return _axis(places[roles["head"]] - places[roles["pelvis"]]) if "head" in roles else None


def _moving_up(motion: Motion, roles: dict[str, int]) -> Axis | None:
    """Return the axis along which the trunk of a known body is held for most of a motion, or None."""
    if "head" not in roles:
        return None
    looks = torch.linspace(0, motion.frames - 1, min(motion.frames, _LOOKS), dtype=torch.float64).round().long()
    few = replace(motion, rotations=motion.rotations[looks], translations=motion.translations[looks], tracks={})
    places = few.positions()
    trunk = torch.nn.functional.normalize(places[:, roles["head"]] - places[:, roles["pelvis"]], dim=-1)
    return _axis(trunk.median(dim=0).values)


def _axis(up: Tensor) -> Axis | None:
    length = float(up.norm())
    if length == 0:
        return None
    _, y, z = (up / length).tolist()
    return "y" if y > _CLEAR else "z" if z > _CLEAR else None


def z_up_to_y_up(motion: Motion) -> Motion:
    """Turn a Z-up motion so that Y is up: ``(x, y, z)`` becomes ``(x, z, -y)``, bones and rotations alike."""
    turn = motion.offsets.new_tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    return replace(
        motion,
        offsets=motion.offsets @ turn.T,
        rotations=turn @ motion.rotations @ turn.T,
        translations=motion.translations @ turn.T,
    )
