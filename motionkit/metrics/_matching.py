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
        ``[top]`` float64 for k = 1 ... top. A tie counts by its expectation: of e motions at the own one's distance,
        each order is as likely, so that a hit at rank k counts ``(k - nearer) / e``, within 0 and 1. A motion that is
        twice in its batch is found at rank 1 half of the time, and a constant model has k / batch, chance.

    Example:
        >>> r_precision(torch.eye(32), torch.eye(32))
        tensor([1., 1., 1.], dtype=torch.float64)
    """
    return match_hits(text, motion, top=top, batch=batch).mean(1)


def match_hits(text: Tensor, motion: Tensor, *, top: int = 3, batch: int = BATCH) -> Tensor:
    """Return for each text whether its own motion is among the k nearest of its batch; `r_precision` is the mean.

    Args:
        text: See `r_precision`.
        motion: See `r_precision`.
        top: Largest k.
        batch: Candidates per text.

    Returns:
        ``[top, n]`` float64 within 0 and 1 for k = 1 ... top and the n rows in whole batches; fractions are ties.
    """
    # [batches, 32, 32] distances, texts in rows; the right motion is on the diagonal.
    table = _batches(text, motion, batch)
    own = table.diagonal(dim1=1, dim2=2)[..., None]
    nearer, tied = (table < own).sum(-1).flatten(), (table == own).sum(-1).flatten()
    return expected_hits(nearer.double(), tied.double(), top=top)


def expected_hits(nearer: Tensor, tied: Tensor, *, top: int = 3) -> Tensor:
    """Return whether the own one is among the k nearest, a tie by its expectation over all orders of the tied.

    Args:
        nearer: ``[...]``, how many candidates are nearer than the own one.
        tied: ``[...]``, how many are at its distance, itself included; floating point.
        top: Largest k.

    Returns:
        ``[top, ...]`` within 0 and 1 for k = 1 ... top.

    Example:
        >>> expected_hits(torch.tensor([0.0, 0.0, 2.0]), torch.tensor([1.0, 2.0, 4.0]))
        tensor([[1.0000, 0.5000, 0.0000],
                [1.0000, 1.0000, 0.0000],
                [1.0000, 1.0000, 0.2500]])
    """
    return torch.stack([((k - nearer) / tied).clamp(0.0, 1.0) for k in range(1, top + 1)])


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
