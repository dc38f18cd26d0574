"""Faults between neighbouring frames: jumps, and stretches in which nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.clips.checks._finding import Finding, amount, count, words
from motionkit.motion.frames import ranges

FASTEST_JOINT = 25.0
"""m/s. The hand of a professional throwing a ball passes 25 m/s for a few milliseconds; mocap of daily motion and
sports stays under 19 (the fastest joint of 228 CMU clips, a jump)."""

FASTEST_ROOT = 12.5
"""m/s. The fastest sprint ever measured peaked at 12.4."""

ROOT_SHIFT = 3.0
"""m/s by which one step of the root may differ from both the step before and the step after it. A pelvis that weighs
30 kg and more does not: in 228 CMU clips it stays under 1.7 at 12.5, 20, 30 and 60 fps. A shift of the whole body by
15 cm at 20 fps passes it, which is far below what a sprinter covers in the same time."""

FASTEST_ROOT_TURN = 840.0
"""Degrees per second: 14 degrees a frame at 60 fps, the bound by which CMU clips with swapped markers are cleaned;
a figure skater's spin passes it, a dancer's does not."""

FASTEST_JOINT_TURN = 2520.0
"""Degrees per second: 42 degrees a frame at 60 fps, from the same."""

FROZEN_SECONDS = 1.0
"""Seconds of equal values that mean a recording stopped: a body that stands still sways."""

_EQUAL = 1e-9


def speed_jumps(positions: Tensor, names: Sequence[str], fps: float) -> Finding | None:
    """Find frames at which a joint arrives faster than `FASTEST_JOINT`, or the root faster than `FASTEST_ROOT`.

    Args:
        positions: ``[T, J, 3]`` metres, the root first; frames that are not finite are passed over.
        names: Their names.
        fps: Frames per second.
    """
    finite = positions.isfinite().all(-1)
    # A step between finite places may be too long for a float; it is a jump all the same.
    speed = (positions[1:] - positions[:-1]).norm(dim=-1).where(finite[1:] & finite[:-1], 0.0) * fps
    limit = torch.full((len(names),), FASTEST_JOINT, dtype=speed.dtype)
    limit[0] = FASTEST_ROOT
    return _beyond(speed, limit, names, "moves at up to {} m/s (people stay below {:g} m/s there)")


def root_shift(positions: Tensor, names: Sequence[str], fps: float) -> Finding | None:
    """Find frames at which the whole body is somewhere else: the root's step is unlike the steps on both sides of it.

    Steps that `speed_jumps` reports are left to it.

    Args:
        positions: ``[T, J, 3]`` metres, the root first; frames that are not finite are passed over.
        names: Their names.
        fps: Frames per second.
    """
    velocity = (positions[1:, 0] - positions[:-1, 0]) * fps
    if len(velocity) < 3:
        return None
    change = velocity.diff(dim=0).norm(dim=-1)
    alone = torch.minimum(change[:-1], change[1:])
    marked = (alone > ROOT_SHIFT) & (velocity[1:-1].norm(dim=-1) <= FASTEST_ROOT)
    # Of a single frame out of place, the step there and the step back are both found.
    spans = ranges(torch.nn.functional.pad(marked, (2, 1)))
    if not spans:
        return None
    worst = float(alone[marked].max())
    total = count(spans)
    detail = (
        f"{total} shift{'s' if total > 1 else ''} of the whole body, at {words(spans)}: the step of {names[0]} is "
        f"up to {amount(100 * worst / fps)} cm ({amount(worst, 1)} m/s) off the steps before and after it."
    )
    return Finding("jump", spans, detail)


def turn_jumps(rotations: Tensor, names: Sequence[str], fps: float) -> Finding | None:
    """Find frames at which a joint turns faster than `FASTEST_JOINT_TURN`, or the root than `FASTEST_ROOT_TURN`.

    Args:
        rotations: ``[T, J, 3, 3]`` relative to the parent, the root first; what is not finite is passed over.
        names: Their names.
        fps: Frames per second.
    """
    import roma

    angle: Tensor = roma.rotmat_geodesic_distance(rotations[:-1], rotations[1:])
    speed = torch.rad2deg(angle).nan_to_num(0.0) * fps
    limit = torch.full((len(names),), FASTEST_JOINT_TURN, dtype=speed.dtype)
    limit[0] = FASTEST_ROOT_TURN
    text = "turns at up to {} degrees/s (the bound is {:g}: {} degrees a frame)"
    return _beyond(speed, limit, names, text, 1.0 / fps)


def frozen(positions: Tensor, fps: float) -> Finding | None:
    """Find stretches longer than `FROZEN_SECONDS` in which no joint moves at all."""
    same = ((positions[1:] - positions[:-1]).abs() <= _EQUAL).flatten(1).all(1)
    # k equal steps are k + 1 equal frames.
    spans = tuple((a, b + 1) for a, b in ranges(same) if b - a > FROZEN_SECONDS * fps)
    if not spans:
        return None
    longest = max(b - a for a, b in spans) / fps
    detail = (
        f"nothing moves in {words(spans)}, for up to {amount(longest, 1)} s: the values are the same in every frame."
    )
    return Finding("frozen", spans, detail, "warning")


def _beyond(speed: Tensor, limit: Tensor, names: Sequence[str], text: str, *more: float) -> Finding | None:
    """Report steps ``[T-1, J]`` above their joint's limit, with the joint that is furthest above."""
    over = speed > limit
    if not bool(over.any()):
        return None
    spans = ranges(torch.nn.functional.pad(over.any(1), (1, 0)))
    joint = int((speed / limit).amax(0).argmax())
    bound = float(limit[joint])
    numbers = (amount(float(speed[:, joint].max())), bound, *(amount(bound * factor) for factor in more))
    total = count(spans)
    what = f"{total} jump{'s' if total > 1 else ''}, at {words(spans)}: {names[joint]} {text.format(*numbers)}."
    return Finding("jump", spans, what)
