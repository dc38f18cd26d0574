"""A first frame that does not belong to the motion: a T-pose put before it, or what a filter left of one."""

from __future__ import annotations

from torch import Tensor

_STEP = 0.08
"""Metres that some joint moves between the first two frames, relative to the root."""

_RATIO = 4.0
"""How many times as far as in any of the frames that follow. Inside of 228 CMU clips, wherever one begins to look, the
ratio stays under 2.5; clips whose first frame is a sixth of the way back to the rest pose, because a filter ran over
it, have 4.3 to 6.3; a whole rest pose has far more."""

_SECONDS = 1.0 / 3.0
_SLOW_FPS = 30.0
"""Below this rate steps are longer and fewer, and a hand that stops moves 4 times as far in one as after it."""


def starts_at_rest(positions: Tensor, unit: float = 1.0, fps: float = 60.0) -> bool:
    """Return True when the first frame has nothing to do with the second, as a T-pose put before the motion has not.

    Limbs are compared relative to the root, because a rest pose often stands at the origin as well.

    Args:
        positions: ``[T, J, 3]`` joints, the root first, at the file's own rate.
        unit: Metres per unit.
        fps: That rate.
    """
    if len(positions) < 4:
        return False
    limbs = (positions - positions[:, :1]) * unit
    steps = (limbs[1:] - limbs[:-1]).norm(dim=-1).amax(dim=-1)
    following = steps[1 : 1 + max(6, round(fps * _SECONDS))].max()
    ratio = _RATIO if fps >= _SLOW_FPS else 1.5 * _RATIO
    return bool(steps[0] > _STEP and steps[0] > ratio * following)
