"""Find a rest pose in the first frames: a T-pose put before the motion, or the remains of a filtered one."""

from __future__ import annotations

from torch import Tensor

_STEP = 0.08
"""Metres that some joint moves between the rest pose and the motion, relative to the root."""

_RATIO = 4.0
"""How many times as far as in any of the frames that follow. Inside of 228 CMU clips, wherever one begins to look, the
ratio stays under 2.5; clips whose first frame is a sixth of the way back to the rest pose, because a filter ran over
it, have 4.3 to 6.3; a whole rest pose has far more."""

_HELD = 1e-3
"""Metres between frames up to which a pose counts as held: rounding. A person who stands before walking sways; then no
frame is `_STEP` away from the one before it and four times as far as the following steps."""

_SECONDS = 1.0 / 3.0
_SLOW_FPS = 30.0
"""Below this rate steps are longer and fewer, and a hand that stops may move 4 times as far in one step as in the next.
A pose that is held before is judged as at any rate."""


def frames_at_rest(positions: Tensor, fps: float = 60.0) -> int:
    """Return the number of frames at the start that do not belong to the motion, such as a T-pose put before it.

    That is the first frame, or a pose held over several, when it is left in one step that is unlike those after it.
    Limbs are compared relative to the root, because a rest pose often stands at the origin as well.

    Args:
        positions: ``[T, J, 3]`` metres, the root first, at the file's own rate.
        fps: That rate.

    Example:
        >>> import torch
        >>> positions = torch.zeros(40, 2, 3)
        >>> positions[1:, 1, 0] = 0.5 + 0.01 * torch.arange(39)  # half a metre in the first step
        >>> frames_at_rest(positions)
        1
    """
    limbs = positions - positions[:, :1]
    steps = (limbs[1:] - limbs[:-1]).norm(dim=-1).amax(dim=-1)
    moving = (steps > _HELD).nonzero()
    first = int(moving[0]) if len(moving) else len(steps)
    following = steps[first + 1 : first + 1 + max(6, round(fps * _SECONDS))]
    if len(following) < 2:
        return 0
    step, most = float(steps[first]), float(following.max())
    if first and most <= _HELD:
        # From one still pose to another: a jump if it is far enough; either of the two may be the motion.
        return 0
    ratio = _RATIO if fps >= _SLOW_FPS or first else 1.5 * _RATIO
    return first + 1 if step > _STEP and step > ratio * most else 0
