"""Several motions of one array: what is wrong with one of them is no fault of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.arrays._space import body_of, place_joints
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import JointMotion

_NO_FAULTS: Mapping[int, MotionkitError] = {}


def stacked_clips(
    stack: Sequence[Tensor],
    parts: Sequence[str],
    options: ReadOptions,
    origin: str,
    kind: str,
    faults: Mapping[int, MotionkitError] = _NO_FAULTS,
) -> list[Clip]:
    """Return a clip for each motion of an array; one that cannot be used has a `Clip.fault`, and nothing finite.

    Args:
        stack: Joints ``[T, J, 3]``, J one for which there is a body.
        parts: What sets each apart from the others; empty for the only one.
        options: As in `place_joints`.
        origin: The file, for messages.
        kind: The format, for the record.
        faults: What is known to be wrong with some of them, by number.

    Raises:
        MotionkitError: None of them can be used; what is wrong with the first.
    """
    clips = [
        _clip(joints, part, options, kind, faults.get(number))
        for number, (joints, part) in enumerate(zip(stack, parts, strict=True))
    ]
    first = clips[0].fault
    if first is not None and all(clip.fault for clip in clips):
        where = f"{origin} ({parts[0]})" if parts[0] else origin
        raise MotionkitError(f"{where}: {first.message}", why=first.why, fix=first.fix)
    return clips


def _clip(joints: Tensor, part: str, options: ReadOptions, kind: str, fault: MotionkitError | None) -> Clip:
    try:
        if fault is not None:
            raise fault
        placed = place_joints(joints, options)
    except MotionkitError as error:
        return Clip(_nothing(joints), part=part, notes={"format": kind}, fault=error)
    notes = {"format": kind, **placed.notes, "frames": str(placed.motion.frames)}
    return Clip(placed.motion, part=part, notes=notes, warnings=placed.warnings)


def _nothing(joints: Tensor) -> JointMotion:
    """Return a motion of which nothing is known: whoever overlooks the fault finds no finite frame."""
    body = body_of(joints.shape[1])
    assert body is not None
    skeleton, names, parents = body
    return JointMotion(names, parents, torch.full_like(joints, math.nan, dtype=torch.float64), skeleton.fps)
