"""Faults of the body itself: its size, and bones that stretch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.geometry import bones_from_positions
from motionkit.motion.checks._finding import Finding, amount, ranges, words
from motionkit.motion.rigs._bodymap import find_roles

LEG, LEG_RANGE = 0.82, (0.40, 1.25)
"""Metres from hip to ankle: an adult's, and a toddler's to a giant's. Units differ by 2.5 and more, so the wrong one
falls outside."""

SPAN, SPAN_RANGE = 2.3, (1.1, 3.6)
"""Metres of the longest way along the bones of a body, from finger to toe: used where no legs are found by name."""

STRETCH = 0.05
"""Part of its usual length by which a bone of a recorded body may seem to change (markers slip on skin); generated
joints often exceed it."""

_SHORTEST_BONE = 0.03
_UNITS = {
    1000.0: "millimetres were read as metres", 100.0: "centimetres were read as metres",
    10.0: "centimetres were read as decimetres", 39.37: "inches were read as metres",
    2.54: "centimetres were read as inches", 0.394: "inches were read as centimetres",
    0.1: "decimetres were read as centimetres", 0.01: "metres were read as centimetres",
    0.001: "metres were read as millimetres",
}  # fmt: skip


def scale_finding(positions: Tensor, names: Sequence[str], parents: Sequence[int]) -> Finding | None:
    """Find a body that is no size for a person, and guess the unit that was meant.

    Args:
        positions: ``[T, J, 3]`` metres; finite.
        names: Joint names; legs are found by them.
        parents: Parent of each joint.
    """
    lengths = _bone_lengths(positions, parents).median(dim=0).values
    leg = _leg(names, parents, positions)
    what, size, usual, (low, high) = (
        ("legs measure", leg, LEG, LEG_RANGE)
        if leg is not None
        else ("longest chain of bones measures", _span(lengths.tolist(), parents), SPAN, SPAN_RANGE)
    )
    if low <= size <= high:
        return None
    if size <= 1e-6:
        # The predictor's JSON may hold rotations only: good for training, with nothing to look at.
        return Finding("scale", (), "all joints are in one place: bone lengths are not known.", "warning")
    factor, unit = min(_UNITS.items(), key=lambda item: abs(math.log(size / usual / item[0])))
    guess = (
        f"about {factor:g} times that of a person, as if {unit}"
        if abs(math.log(size / usual / factor)) < 0.5
        else "the unit may be wrong"
    )
    detail = f"the body's {what} {size:.3g} m, a person's {low:g} to {high:g} m; {guess}."
    return Finding("scale", (), detail)


def bone_finding(positions: Tensor, names: Sequence[str], parents: Sequence[int]) -> Finding | None:
    """Find frames in which a bone is longer or shorter than its median by more than `STRETCH`.

    Bones under 3 cm are passed over: rounding alone changes them. The root's distance from the origin is no bone.

    Args:
        positions: ``[T, J, 3]`` metres; finite.
        names: Joint names.
        parents: Parent of each joint.
    """
    lengths = _bone_lengths(positions, parents)
    usual = lengths.median(dim=0).values
    change = torch.where(usual > _SHORTEST_BONE, (lengths - usual).abs() / usual.clamp_min(1e-9), 0.0)
    spans = ranges(change.amax(1) > STRETCH)
    if not spans:
        return None
    joint = int(change.amax(0).argmax())
    detail = (
        f"the bone to {names[joint]} changes by up to {amount(100 * float(change[:, joint].max()))} % of its "
        f"{amount(100 * float(usual[joint]))} cm; some bone by more than {100 * STRETCH:.0f} % in {words(spans)}."
    )
    return Finding("bone-length", spans, detail, "warning")


def _bone_lengths(positions: Tensor, parents: Sequence[int]) -> Tensor:
    """Return ``[T, J]`` lengths; 0 for roots."""
    lengths: Tensor = bones_from_positions(positions, parents).norm(dim=-1)
    return lengths * torch.tensor([float(parent >= 0) for parent in parents], dtype=lengths.dtype)


def _leg(names: Sequence[str], parents: Sequence[int], positions: Tensor) -> float | None:
    """Return the mean length of the legs, hip to knee to ankle, or None when the names do not tell."""
    found = find_roles(names, parents)
    total = 0.0
    for side in ("left", "right"):
        legs = [found.get(f"{side} {role}") for role in ("hip", "knee", "ankle")]
        if None in legs:
            return None
        hip, knee, ankle = positions[0, legs]
        total += float((hip - knee).norm() + (knee - ankle).norm()) / 2
    return total


def _span(lengths: Sequence[float], parents: Sequence[int]) -> float:
    """Return the longest way between two joints along the bones; parents come before their children."""
    deepest, longest = [0.0] * len(parents), 0.0
    for joint in range(len(parents) - 1, -1, -1):
        parent = parents[joint]
        if parent >= 0:
            reach = deepest[joint] + lengths[joint]
            longest = max(longest, deepest[parent] + reach)
            deepest[parent] = max(deepest[parent], reach)
    return longest
