"""Two faults that motion-capture files come with: a rest pose as first frame, and jumps."""

from __future__ import annotations

import torch
from torch import Tensor

_REST_STEP = 0.12
_REST_RATIO = 6.0
_FASTEST = 25.0


def starts_at_rest(positions: Tensor, unit: float) -> bool:
    """Return True when the first frame has nothing to do with the second, as a T-pose put before the motion has not.

    Limbs are compared relative to the root, because a rest pose often stands at the origin as well.

    Args:
        positions: ``[T, J, 3]`` joints, the root first, at the file's own rate.
        unit: Metres per unit.
    """
    if len(positions) < 4:
        return False
    limbs = (positions - positions[:, :1]) * unit
    steps = (limbs[1:] - limbs[:-1]).norm(dim=-1).amax(dim=-1)
    return bool(steps[0] > _REST_STEP and steps[0] > _REST_RATIO * steps[1:20].max())


def jumps(positions: Tensor, unit: float, fps: float) -> list[int]:
    """Return the frames at which a joint arrives faster than 25 m/s, which no limb does."""
    speed = (positions[1:] - positions[:-1]).norm(dim=-1).amax(dim=-1) * unit * fps
    frames: list[int] = (torch.nonzero(speed > _FASTEST)[:, 0] + 1).tolist()
    return frames
