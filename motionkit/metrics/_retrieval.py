"""Text-motion retrieval: R-precision and matching score in batches of 32, and the four protocols of TMR.

R-precision and matching score are those of Guo et al. (CVPR 2022); ranks, recalls and protocols those of Petrovich et
al., "TMR" (ICCV 2023), section 4.1. Published numbers differ by protocol and by convention (ties, identical captions),
so they do not compare across them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError

BATCH = 32
"""Candidates per text of R-precision and matching score."""

RECALLS = (1, 2, 3, 5, 10)
Ties = Literal["average", "optimistic"]
GUO_BATCH = 32


def distances(text: Tensor, motion: Tensor) -> Tensor:
    """Return euclidean distances ``[..., N, M]`` between ``[..., N, D]`` texts and ``[..., M, D]`` motions.

    The three-term expansion can be negative by rounding; it is then 0, not NaN.
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
        ``[top]`` float64 for k = 1 ... top. A tie counts by its expectation: of e motions at the right one's distance
        each order is as likely, so a hit at rank k counts ``(k - nearer) / e``, within 0 and 1. A motion that is in
        its batch twice counts 1/2 at rank 1, and a constant model has k / batch, chance.

    Example:
        >>> r_precision(torch.eye(32), torch.eye(32))
        tensor([1., 1., 1.], dtype=torch.float64)
    """
    return match_hits(text, motion, top=top, batch=batch).mean(1)


def match_hits(text: Tensor, motion: Tensor, *, top: int = 3, batch: int = BATCH) -> Tensor:
    """Return for each text whether its own motion is among the k nearest of its batch; `r_precision` is the mean.

    Returns:
        ``[top, n]`` float64 within 0 and 1 for k = 1 ... top and the n rows in whole batches; fractions are ties.
    """
    # [batches, 32, 32] distances, texts in rows; the right motion is on the diagonal.
    table = _batches(text, motion, batch)
    right = table.diagonal(dim1=1, dim2=2)[..., None]
    nearer, tied = (table < right).sum(-1).flatten(), (table == right).sum(-1).flatten()
    return expected_hits(nearer.double(), tied.double(), top=top)


def expected_hits(nearer: Tensor, tied: Tensor, *, top: int = 3) -> Tensor:
    """Return whether the right candidate is among the k nearest, in expectation over all orders of tied ones.

    Args:
        nearer: ``[...]``, how many candidates are nearer than the right one.
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
    """Return the mean distance between a text and its own motion (MM-Dist), over the batches of `r_precision`."""
    return _batches(text, motion, batch).diagonal(dim1=1, dim2=2).mean()


def _batches(text: Tensor, motion: Tensor, batch: int) -> Tensor:
    if text.shape != motion.shape or text.ndim != 2:
        raise MotionkitError(f"texts {list(text.shape)} and motions {list(motion.shape)} must be alike, [N, D].")
    count = len(text) // batch * batch
    if not count:
        raise MotionkitError(f"batches of {batch} need at least {batch} pairs, got {len(text)}.")
    return distances(text[:count].reshape(-1, batch, text.shape[1]), motion[:count].reshape(-1, batch, text.shape[1]))


def ranks(similarity: Tensor, *, relevant: Tensor | None = None, ties: Ties = "average") -> Tensor:
    """Return the 0-based rank of each row's target among its columns.

    Args:
        similarity: ``[N, N]``; the target of row i is column i.
        relevant: ``[N, N]`` bool; the target of row i becomes its most similar relevant column. All columns stay
            candidates.
        ties: ``average`` gives the mean of the positions that share the target's similarity (a constant model then
            ranks in the middle), ``optimistic`` the first of them.

    Returns:
        ``[N]`` float64, fractional where positions are averaged.

    Example:
        >>> similarity = torch.tensor([[0.9, 0.1], [0.8, 0.2]])  # row 1 prefers column 0
        >>> ranks(similarity)
        tensor([0., 1.], dtype=torch.float64)
    """
    target = similarity.diagonal()
    if relevant is not None:
        target = torch.where(relevant, similarity, similarity.new_full((), -torch.inf)).amax(1)
    before = (similarity > target[:, None]).sum(1).double()
    if ties == "optimistic":
        return before
    return before + ((similarity == target[:, None]).sum(1).double() - 1) / 2


def recalls(rank: Tensor) -> dict[str, float]:
    """Return ``R01 R02 R03 R05 R10`` in percent, the median rank ``MedR`` (from 1) and ``len``, unrounded."""
    result = {f"R{k:02d}": 100.0 * float((rank < k).double().mean()) for k in RECALLS}
    return result | {"MedR": float(np.median(rank.cpu().numpy())) + 1.0, "len": float(len(rank))}


def retrieval(
    similarity: Tensor, *, sentences: Tensor | None = None, threshold: float = 0.95, ties: Ties = "average"
) -> dict[str, float]:
    """Measure by protocol ``normal`` (all candidates) or, with `sentences`, ``threshold``.

    Args:
        similarity: ``[N, N]``, rows = texts, columns = motions, ground truth on the diagonal.
        sentences: ``[N, F]`` unit-norm sentence embeddings. A candidate then also counts as right when the cosine of
            its text and the query's is above ``2 threshold - 1``.
        threshold: See `sentences`; 0.95 means a cosine above 0.90.
        ties: See `ranks`.

    Returns:
        ``t2m/R01 ... t2m/len`` and ``m2t/...`` in percent.
    """
    if similarity.ndim != 2 or similarity.shape[0] != similarity.shape[1] or not len(similarity):
        raise MotionkitError(f"retrieval needs a square similarity matrix, got {list(similarity.shape)}.")
    relevant = None if sentences is None else sentences @ sentences.T > 2 * threshold - 1
    if relevant is not None:
        relevant = relevant | torch.eye(len(relevant), dtype=torch.bool, device=relevant.device)
    both = {"t2m": similarity, "m2t": similarity.T}
    return {
        f"{direction}/{name}": value
        for direction, matrix in both.items()
        for name, value in recalls(ranks(matrix, relevant=relevant, ties=ties)).items()
    }


def retrieval_subset(similarity: Tensor, index: Sequence[int], *, ties: Ties = "average") -> dict[str, float]:
    """Measure by protocol ``nsim``: `retrieval` among the given items only."""
    chosen = torch.as_tensor(index, device=similarity.device)
    return retrieval(similarity[chosen][:, chosen], ties=ties)


def dissimilar(sentences: Tensor, count: int) -> list[int]:
    """Choose items with dissimilar texts, for protocol ``nsim`` without a list; at most `count` indices, ascending.

    Greedy: the item whose largest cosine to all others is smallest, then repeatedly the item whose largest cosine to
    those chosen is smallest. TMR's own list (about 100 pairs) was made by another search, which is not published.

    Args:
        sentences: ``[N, F]`` unit-norm sentence embeddings.
        count: How many.

    Example:
        >>> dissimilar(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), 2)
        [0, 2]
    """
    cosine = sentences @ sentences.T
    cosine.fill_diagonal_(-torch.inf)
    nearest = cosine.amax(1)
    chosen: list[int] = []
    for _ in range(min(len(sentences), count)):
        chosen.append(int(nearest.argmin()))
        nearest = cosine[chosen[0]].clone() if len(chosen) == 1 else torch.maximum(nearest, cosine[chosen[-1]])
        nearest[chosen] = torch.inf
    return sorted(chosen)


def guo_batches(count: int) -> list[list[int]]:
    """Return the batches of 32 of protocol ``guo``: indices of sorted keys, shuffled by seed 0, remainder dropped."""
    order = np.arange(count)
    np.random.RandomState(0).shuffle(order)
    return order[: count // GUO_BATCH * GUO_BATCH].reshape(-1, GUO_BATCH).tolist()


def retrieval_guo(similarity: Tensor, *, ties: Ties = "average") -> dict[str, float]:
    """Measure by protocol ``guo``: `retrieval` inside each batch of `guo_batches`, unrounded, then averaged.

    Args:
        similarity: ``[N, N]`` with items in the order of their sorted keys, N >= 32.
        ties: See `ranks`.
    """
    batches = guo_batches(len(similarity))
    if not batches:
        raise MotionkitError(f"batches of {GUO_BATCH} need at least {GUO_BATCH} items, got {len(similarity)}.")
    results = [retrieval_subset(similarity, batch, ties=ties) for batch in batches]
    return {name: sum(result[name] for result in results) / len(results) for name in results[0]}
