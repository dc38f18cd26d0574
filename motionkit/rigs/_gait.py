"""A soft gait per frame, from foot contacts and speed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rigs._contacts import find_feet

GAITS = ("idle", "walk", "run", "jump")
"""Gaits, in the order of every array of them."""

_GRAVITY = 9.81
_MOVING, _RUNNING = 0.1, math.sqrt(0.5)
"""Speeds as shares of sqrt(gravity x leg). People break into a run at half the Froude number 1 (Alexander 1989)."""

_SOFT = 0.1
"""Width of a change from one gait to the next, as a share of its speed."""

_WINDOW = 0.5
"""Seconds that the speed is averaged over."""

_FLIGHT = 0.25
"""Seconds without a foot on the ground from which on it is a jump; a running step flies shorter."""

_AIR = 0.1
"""Width of the change to a jump, in the share of air."""


def leg_length(names: Sequence[str], parents: Sequence[int], offsets: Tensor) -> float:
    """Return the length of the legs in metres, from the root to the ankles; 0 where a skeleton has no known feet.

    Args:
        names: Joint names.
        parents: Parent of each joint, -1 for the root.
        offsets: ``[J, 3]`` metres from the parent.
    """
    feet = find_feet(names, parents)
    if feet is None:
        return 0.0
    lengths = []
    for ankle, *_ in feet:
        joint, total = ankle, 0.0
        while joint > 0:
            total += float(offsets[joint].norm())
            joint = parents[joint]
        lengths.append(total)
    return sum(lengths) / len(lengths)


def soft_gait(steps: Tensor, contacts: Tensor | None, fps: float, leg: float) -> Tensor:
    """Return how much of each gait a frame is.

    With speed v over the ground, averaged over half a second as a vector (swaying in place is no walk), and
    u = v / sqrt(9.81 leg): moving m = sigmoid((u - 0.1) / 0.01), running r = sigmoid((u - 0.707) / 0.0707); for a leg
    of 0.9 m that is 0.3 and 2.1 m/s. Air a = (1 - left) (1 - right); what of it lasts less than a quarter of a second
    is taken away (a running step), and jump j = sigmoid((a - 0.5) / 0.1). Then idle (1 - j) (1 - m), walk
    (1 - j) m (1 - r), run (1 - j) m r, jump j. Frames later than a frame count as well as earlier ones.

    Args:
        steps: ``[T, 3]`` as in `motionkit.motion.prediction._state.MotionState`.
        contacts: ``[T, 2]`` left and right foot; None where they are not known: then nothing is a jump.
        fps: Frames per second.
        leg: Length of the legs, metres.

    Returns:
        ``[T, 4]`` idle, walk, run, jump; rows sum to 1.

    Raises:
        MotionkitError: The leg has no length.

    Example:
        >>> steps = torch.tensor([[0.0, 1.2 / 30, 0.0]]).expand(60, 3)
        >>> soft_gait(steps, torch.ones(60, 2), 30.0, 0.9).mean(0).round(decimals=1).tolist()
        [0.0, 1.0, 0.0, 0.0]
    """
    if not leg > 0:
        raise MotionkitError("a gait needs the length of the legs.", why=f"it is {leg:g} m.")
    velocity = _averaged(steps[:, :2] * fps, round(_WINDOW * fps))
    pace = velocity.norm(dim=-1) / math.sqrt(_GRAVITY * leg)
    moving = ((pace - _MOVING) / (_SOFT * _MOVING)).sigmoid()
    running = ((pace - _RUNNING) / (_SOFT * _RUNNING)).sigmoid()
    jump = torch.zeros_like(pace)
    if contacts is not None and len(contacts):
        flown = _lasting((1 - contacts).prod(-1), max(1, math.ceil(_FLIGHT * fps)))
        jump = ((flown - 0.5) / _AIR).sigmoid()
    ground = 1 - jump
    return torch.stack(
        [ground * (1 - moving), ground * moving * (1 - running), ground * moving * running, jump], dim=-1
    )


def _averaged(values: Tensor, frames: int) -> Tensor:
    """Return the mean of ``[T, C]`` over about `frames` frames around each, fewer at the ends."""
    half = max(0, frames // 2)
    total = torch.cat([values.new_zeros(1, values.shape[1]), values.cumsum(0)])
    place = torch.arange(len(values), device=values.device)
    low, high = (place - half).clamp_min(0), (place + half + 1).clamp_max(len(values))
    return (total[high] - total[low]) / (high - low)[:, None]


def _lasting(values: Tensor, frames: int) -> Tensor:
    """Return ``[T]`` without what is high for less than `frames` frames: the opening, a minimum and then a maximum."""
    if len(values) < frames:
        return torch.zeros_like(values)
    lowest = values.unfold(0, frames, 1).amin(-1)
    edge = lowest.new_zeros(frames - 1)  # a maximum of values in 0 to 1 is not changed by zeros
    return torch.cat([edge, lowest, edge]).unfold(0, frames, 1).amax(-1)
