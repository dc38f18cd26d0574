"""Height of the floor; joints below it, and bodies above it for too long."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.clips.checks._finding import Finding, amount, words
from motionkit.motion.frames import ranges

PENETRATION = 0.05
"""Metres below the floor that are worth a warning. Toes of real recordings dip 1-3 cm when a foot rolls off."""

DEEP_PENETRATION = 0.10
"""Metres that are an error: more than the thickness of a foot, so no skeleton's choice of toe joint explains them."""

FLOATING_HEIGHT = 0.10
FLOATING_SECONDS = 1.0
"""The best human jump (0.6 m at the centre of mass) keeps a body in the air for 0.7 s."""

_PLANTED_SPEED = 0.3
_PLANTED_FRAMES = 5
_LOW = 0.05


def floor_height(positions: Tensor, fps: float) -> float:
    """Estimate the height of the floor: where the lowest joint is when it stands still.

    The median over the frames in which the lowest joint is slower than 0.3 m/s is taken, so that neither jumps nor a
    few frames below the floor move it; without such frames, the 5 % quantile of the lowest joint's height.

    Args:
        positions: ``[T, J, 3]`` metres, Y up, finite.
        fps: Frames per second.

    Example:
        >>> floor_height(torch.full((20, 22, 3), 0.25), fps=20.0)
        0.25
    """
    low, joint = positions[..., 1].min(dim=1)
    if len(positions) > 1:
        speed = (positions[1:] - positions[:-1]).norm(dim=-1) * fps
        speed = torch.cat([speed[:1], speed]).gather(1, joint[:, None])[:, 0]
        if int((planted := speed < _PLANTED_SPEED).sum()) >= _PLANTED_FRAMES:
            return float(low[planted].median())
    return float(low.quantile(_LOW))


def floor_findings(positions: Tensor, names: Sequence[str], fps: float, floor: float | None = None) -> list[Finding]:
    """Find joints below the floor, and stretches in which nothing is near it.

    Stairs and rough ground look the same: the estimate is one flat floor for the whole clip.

    Args:
        positions: ``[T, J, 3]`` metres, Y up, finite.
        names: Joint names.
        fps: Frames per second.
        floor: Height of the floor when it is known; None estimates it.
    """
    height = floor_height(positions, fps) if floor is None else floor
    low, joint = positions[..., 1].min(dim=1)
    depth, found = height - low, []
    deep = depth > DEEP_PENETRATION
    for mask, severity in ((deep, "error"), ((depth > PENETRATION) & ~deep, "warning")):
        if spans := ranges(mask):
            worst = int(torch.where(mask, depth, depth.new_tensor(-1.0)).argmax())
            where = f"{names[int(joint[worst])]} is up to {amount(100 * float(depth[worst]))} cm below the floor"
            about = f"floor at {amount(height, 2)} m{'' if floor is not None else ', estimated from standing feet'}"
            detail = f"{where} in {words(spans)} ({about})."
            found.append(Finding("penetration", spans, detail, "error" if severity == "error" else "warning"))
    spans = tuple((a, b) for a, b in ranges(low > height + FLOATING_HEIGHT) if b - a > FLOATING_SECONDS * fps)
    if spans:
        longest = max(b - a for a, b in spans) / fps
        detail = (
            f"no joint is within {100 * FLOATING_HEIGHT:.0f} cm of the floor in {words(spans)}, for up to "
            f"{amount(longest, 1)} s: something is climbed on, or the floor is wrong."
        )
        found.append(Finding("floating", spans, detail, "warning"))
    return found
