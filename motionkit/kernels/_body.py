"""The foot joints of a body and the contact height of each."""

from __future__ import annotations

from functools import lru_cache

import torch

from motionkit.errors import MotionkitError

Body = tuple[tuple[int, ...], tuple[float, ...]]
"""The feet and their contact heights in metres."""


def _fit(joints: int, feet: tuple[int, ...], heights: float | tuple[float, ...]) -> Body:
    if len(set(feet)) != len(feet) or (feet and not 0 <= min(feet) <= max(feet) < joints):
        raise MotionkitError(f"feet must be distinct joints of 0..{joints - 1}, got {list(feet)}.")
    each = heights if isinstance(heights, tuple) else (heights,) * len(feet)
    limits = tuple(float(height) for height in each)
    if len(limits) != len(feet):
        raise MotionkitError(f"{len(feet)} feet need one contact height or {len(feet)}, got {len(limits)}.")
    if not all(abs(limit) < 1e30 for limit in limits):
        raise MotionkitError(f"contact heights must be finite numbers of metres, got {list(limits)}.")
    return feet, limits


_known = lru_cache(maxsize=256)(_fit)


def fit_body(joints: int, feet: tuple[int, ...], heights: float | tuple[float, ...]) -> Body:
    """Return the feet and a contact height for each, in metres.

    Args:
        joints: Joints of the body.
        feet: Foot joints.
        heights: One for all feet or one per foot.

    Raises:
        MotionkitError: Feet that are not distinct joints, or heights of another number or not finite.
    """
    # torch.compile may treat the heights as dynamic; such values have no hash.
    return _fit(joints, feet, heights) if torch.compiler.is_compiling() else _known(joints, feet, heights)
