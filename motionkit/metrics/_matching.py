"""R-precision and matching score in batches of 32, as Guo et al. (CVPR 2022) report them."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.errors import MotionkitError

BATCH = 32


def distances(text: Tensor, motion: Tensor) -> Tensor:
    """Return euclidean distances ``[..., N, M]`` between ``[..., N, D]`` texts and ``[..., M, D]`` motions.

    The three-term expansion can go below zero by rounding; that is cut to 0 instead of becoming NaN.
    """
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b for all pairs, by one matrix product.
    square = text.square().sum(-1)[..., :, None] + motion.square().sum(-1)[..., None, :]
    return (square - 2 * text @ motion.transpose(-1, -2)).clamp(min=0.0).sqrt()


def r_precision(text: Tensor, motion: Tensor, *, top: int = 3, batch: int = BATCH) -> Tensor:
    """Return the share of texts whose own motion is among the k nearest of its batch.

    Args:
        text: ``[N, D]``.
        motion: ``[N, D]``, row i belongs to text i. Consecutive rows form the batches; a remainder is dropped.
        top: Largest k.
        batch: Candidates per text.

    Returns:
        ``[top]`` float64 for k = 1 ... top. Ties count half a position each, so that a constant model is not right.

    Example:
        >>> r_precision(torch.eye(32), torch.eye(32))
        tensor([1., 1., 1.], dtype=torch.float64)
    """
    rank = match_ranks(text, motion, batch=batch)
    return torch.stack([(rank < k).double().mean() for k in range(1, top + 1)])


def match_ranks(text: Tensor, motion: Tensor, *, batch: int = BATCH) -> Tensor:
    """Return the 0-based rank of each text's own motion in its batch, ``[n]`` float64; see `r_precision`.

    n is the number of rows in whole batches.
    """
    # [batches, 32, 32] distances, texts in rows; the right motion is on the diagonal.
    table = _batches(text, motion, batch)
    own = table.diagonal(dim1=1, dim2=2)[..., None]
    rank = (table < own).sum(-1).double() + ((table == own).sum(-1).double() - 1) / 2
    return rank.flatten()


def matching_score(text: Tensor, motion: Tensor, *, batch: int = BATCH) -> Tensor:
    """Mean distance between a text and its own motion (MM-Dist), over whole batches as `r_precision` takes them."""
    return _batches(text, motion, batch).diagonal(dim1=1, dim2=2).mean()


def _batches(text: Tensor, motion: Tensor, batch: int) -> Tensor:
    if text.shape != motion.shape or text.ndim != 2:
        raise MotionkitError(f"texts {list(text.shape)} and motions {list(motion.shape)} must be alike, [N, D].")
    whole = len(text) // batch * batch
    if not whole:
        raise MotionkitError(f"batches of {batch} need at least {batch} pairs, got {len(text)}.")
    return distances(text[:whole].reshape(-1, batch, text.shape[1]), motion[:whole].reshape(-1, batch, text.shape[1]))
