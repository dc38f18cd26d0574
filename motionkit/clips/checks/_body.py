"""Faults of the body itself: its size, and bones that stretch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.clips.checks._finding import Finding, amount, words
from motionkit.geometry._kinematics import bones_from_positions
from motionkit.motion.frames import ranges
from motionkit.rigs._bodymap import body_height, leg_length
from motionkit.rigs._roles import find_pairs, find_roles
from motionkit.rigs._units import PERSON_LEG, UNITS

LEG_RANGE = 0.40, 1.25
"""Metres from hip to ankle: a toddler's to a giant's. Units differ by 2.5 and more, so the wrong one falls outside."""

HEIGHT_RANGE = 1.40, 2.05
"""Metres of nearly all adults. Outside there are children and giants, and bodies read in the wrong unit: of public BVH
libraries, whose bodies are 1.5 to 1.9 m, one is 1.0 to 1.2 m tall in inches and 2.2 m in the next larger unit."""

SPAN, SPAN_RANGE = 2.3, (1.1, 3.6)
"""Metres of the longest way along the bones of a body, from finger to toe: used where no legs are found by name."""

STRETCH = 0.05
"""Part of its usual length by which a bone of a recorded body may seem to change (markers slip on skin); generated
joints often exceed it."""

_UNLIKE, _UNLIKE_METRES = 0.25, 0.03
"""Part of the longer bone, and metres, by which two sides may differ; those of CMU's bodies do by 3 % and 1 cm."""

_SHORTEST_BONE = 0.03
_MISTAKES = (
    ("mm", "m"), ("cm", "m"), ("cm", "dm"), ("in", "m"), ("cm", "in"), ("in", "cm"), ("dm", "cm"), ("m", "cm"),
    ("m", "mm"),
)  # fmt: skip
"""The unit of a file and the unit it was read as; of several pairs with one factor the most common."""


def scale_finding(positions: Tensor, names: Sequence[str], parents: Sequence[int]) -> Finding | None:
    """Find a body whose size is not a person's, and guess the unit that was meant.

    Args:
        positions: ``[T, J, 3]`` metres; finite.
        names: Joint names; legs are found by them.
        parents: Parent of each joint.
    """
    lengths = _bone_lengths(positions, parents).median(dim=0).values
    leg = leg_length(find_roles(names, parents), positions[0])
    what, size, usual, (low, high) = (
        ("legs measure", leg, PERSON_LEG, LEG_RANGE)
        if leg > 0
        else ("longest chain of bones measures", _span(lengths.tolist(), parents), SPAN, SPAN_RANGE)
    )
    if low <= size <= high:
        return None if is_plausible(height := body_height(names, parents, positions[0])) else _unusual(height)
    if size <= 1e-6:
        # The predictor's JSON may hold rotations only: enough for training, but positions are all 0.
        return Finding("scale", (), "all joints are in one place: bone lengths are not known.", "warning")
    mistakes = [(UNITS[taken].metres / UNITS[unit].metres, unit, taken) for unit, taken in _MISTAKES]
    factor, unit, taken = min(mistakes, key=lambda mistake: abs(math.log(size / usual / mistake[0])))
    guess = (
        f"about {factor:.4g} times that of a person, as if {UNITS[unit].words} were read as {UNITS[taken].words}"
        if abs(math.log(size / usual / factor)) < 0.5
        else "the unit may be wrong"
    )
    detail = f"the body's {what} {size:.3g} m, a person's {low:g} to {high:g} m; {guess}."
    return Finding("scale", (), detail)


def is_plausible(height: float) -> bool:
    """Whether a height in metres is that of an adult, see `HEIGHT_RANGE`; 0 stands for an unknown one."""
    return height == 0 or HEIGHT_RANGE[0] <= height <= HEIGHT_RANGE[1]


def _unusual(height: float) -> Finding:
    low, high = HEIGHT_RANGE
    who = "a child" if height < low else "a giant"
    detail = f"the body is {height:.2f} m tall, most adults are {low:.2f} to {high:.2f} m: {who}, or --units is needed."
    return Finding("scale", (), detail, "warning")


def side_finding(positions: Tensor, names: Sequence[str], parents: Sequence[int]) -> Finding | None:
    """Find bones that are longer on one side of the body than on the other, such as an end site that went astray.

    Args:
        positions: ``[T, J, 3]`` metres; finite.
        names: Joint names; an end site belongs to the side of its joint.
        parents: Parent of each joint.
    """
    lengths = _bone_lengths(positions, parents).median(dim=0).values.tolist()
    unlike = [
        (abs(lengths[left] - lengths[right]), left, right)
        for left, right in find_pairs(names)
        if abs(lengths[left] - lengths[right]) > max(_UNLIKE_METRES, _UNLIKE * max(lengths[left], lengths[right]))
    ]
    if not unlike:
        return None
    _, left, right = max(unlike)
    more = f", and {len(unlike) - 1} more" if len(unlike) > 1 else ""
    detail = (
        f"the bone to {names[left]} is {amount(100 * lengths[left], 1)} cm long, the one to {names[right]} "
        f"{amount(100 * lengths[right], 1)} cm{more}: left and right of a body are alike."
    )
    return Finding("sides", (), detail, "warning")


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
