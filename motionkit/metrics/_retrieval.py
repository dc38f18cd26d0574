"""Text-motion retrieval: ranks, recalls and the four protocols of the field.

Source of the protocols: Petrovich et al., "TMR" (ICCV 2023), section 4.1. Published numbers differ by protocol and by
convention (ties, identical captions); never compare across them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError

RECALLS = (1, 2, 3, 5, 10)
Ties = Literal["average", "optimistic"]
GUO_BATCH = 32


def ranks(similarity: Tensor, *, relevant: Tensor | None = None, ties: Ties = "average") -> Tensor:
    """Return the 0-based rank of each row's target among its columns.

    Args:
        similarity: ``[N, N]``; the target of row i is column i.
        relevant: ``[N, N]`` bool; the target of row i becomes its most similar relevant column. The list of
            candidates stays whole.
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
    """Protocols ``normal`` (all candidates) and, with `sentences`, ``threshold``.

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
        f"{way}/{name}": value
        for way, matrix in both.items()
        for name, value in recalls(ranks(matrix, relevant=relevant, ties=ties)).items()
    }


def retrieval_subset(similarity: Tensor, index: Sequence[int], *, ties: Ties = "average") -> dict[str, float]:
    """Protocol ``nsim``: `retrieval` among the given items only."""
    chosen = torch.as_tensor(index, device=similarity.device)
    return retrieval(similarity[chosen][:, chosen], ties=ties)


def dissimilar(sentences: Tensor, count: int) -> list[int]:
    """Choose items whose texts are unlike each other, for protocol ``nsim`` where there is no list.

    Greedy: the item whose largest cosine to all others is smallest, then again and again the item whose largest cosine
    to those chosen is smallest. TMR's own list (about 100 pairs) was made by another search, which is not published.

    Args:
        sentences: ``[N, F]`` unit-norm sentence embeddings.
        count: How many.

    Returns:
        ``min(N, count)`` indices in ascending order.

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
    """Return the batches of 32 of protocol ``guo``: indices into the sorted keys, shuffled by seed 0.

    The remainder is dropped.
    """
    order = np.arange(count)
    np.random.RandomState(0).shuffle(order)
    return order[: count // GUO_BATCH * GUO_BATCH].reshape(-1, GUO_BATCH).tolist()


def retrieval_guo(similarity: Tensor, *, ties: Ties = "average") -> dict[str, float]:
    """Protocol ``guo``: `retrieval` inside each batch of `guo_batches`, unrounded, then averaged.

    Args:
        similarity: ``[N, N]`` with items in the order of their sorted keys, N >= 32.
        ties: See `ranks`.
    """
    batches = guo_batches(len(similarity))
    if not batches:
        raise MotionkitError(f"batches of {GUO_BATCH} need at least {GUO_BATCH} items, got {len(similarity)}.")
    return mean_of([retrieval_subset(similarity, batch, ties=ties) for batch in batches])


def mean_of(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Average dictionaries with the same keys."""
    return {name: sum(result[name] for result in results) / len(results) for name in results[0]}
