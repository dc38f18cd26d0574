"""Segments of a motion: the frames of each one, and the advantage that acts on them."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.errors import MotionkitError


def length_mask(lengths: Tensor, frames: int) -> Tensor:
    """Return ``[N, frames]`` bool, True below each of the `lengths` ``[N]``."""
    return torch.arange(frames, device=lengths.device) < lengths[:, None]


def segment_frames(bounds: Tensor, frames: int) -> Tensor:
    """Return which frames each segment owns.

    Args:
        bounds: ``[N, K, 2]`` int64 half-open frame ranges; an absent segment is ``(0, 0)``.
        frames: T.

    Returns:
        ``[N, K, T]`` bool.

    Example:
        >>> segment_frames(torch.tensor([[[0, 2], [2, 3]]]), 4).int().tolist()
        [[[1, 1, 0, 0], [0, 0, 1, 0]]]
    """
    # [T] against [N, K, 1]
    index = torch.arange(frames, device=bounds.device)
    return (index >= bounds[..., :1]) & (index < bounds[..., 1:])


def mix_credit(segments: Tensor, total: Tensor, share: float) -> Tensor:
    """Blend a segment's own advantage with the whole motion's.

    Args:
        segments: ``[N, K]`` advantages of the segments.
        total: ``[N]`` advantages of the whole motions.
        share: Part of the total, 0 (own credit only) to 1 (the whole motion's advantage everywhere).

    Returns:
        ``[N, K]`` ``share * total + (1 - share) * segments``.

    Raises:
        MotionkitError: `share` outside 0..1.

    Example:
        >>> mix_credit(torch.tensor([[1.0, -1.0]]), torch.tensor([0.5]), 0.5).tolist()
        [[0.75, -0.25]]
    """
    if not 0.0 <= share <= 1.0:
        raise MotionkitError(f"the share of the total in segment credit must be in 0..1, got {share}.")
    return share * total[:, None] + (1.0 - share) * segments
