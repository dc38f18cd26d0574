"""The formulas of the TMR rewards, on latents."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class DenseTerms(NamedTuple):
    """Per-segment terms, each ``[N, K]``; entries of missing segments are 0."""

    positive: Tensor
    negative: Tensor
    correct: Tensor


def dense_terms(motion: Tensor, text: Tensor, valid: Tensor) -> DenseTerms:
    """Compare every segment of a motion with every text of its prompt.

    With ``S[k,j] = cos(m_k, t_j)`` and ``B[k,j] = cos(t_k, t_j)``: positive is ``S[k,k]``, negative is
    ``max_{j != k} relu(S[k,j] - B[k,j])``, the worst excess of a wrong text over what the two texts share anyway;
    correct is 1 where no wrong text is closer than the segment's own.

    Args:
        motion: ``[N, K, D]`` latents of the segments.
        text: ``[N, K, D]`` latents of the texts.
        valid: ``[N, K]`` bool, the segments a prompt has.
    """
    m, t = functional.normalize(motion, dim=-1), functional.normalize(text, dim=-1)
    own = torch.eye(valid.shape[1], dtype=torch.bool, device=valid.device)
    positive = (m * t).sum(-1)
    # The batched product differs from the sum above in the last bit: S only serves the wrong pairs.
    wrong = valid[:, :, None] & valid[:, None, :] & ~own
    s, b = m @ t.transpose(1, 2), t @ t.transpose(1, 2)
    zero = s.new_zeros(())
    negative = torch.where(wrong, (s - b).relu(), zero).amax(-1)
    rival = torch.where(wrong, s, s.new_full((), -2.0)).amax(-1)
    return DenseTerms(torch.where(valid, positive, zero), negative, (valid & (positive >= rival)).to(s.dtype))


def matching_score(
    motion: Tensor,
    text: Tensor,
    *,
    similarity: Literal["cosine", "euclidean"],
    normalization: Literal["linear", "exponential", "sigmoid"],
    max_distance: float,
    scale: float,
) -> Tensor:
    """Score ``[N, D]`` motion latents against ``[N, D]`` text latents.

    Returns:
        ``[N]``: the cosine in [-1, 1], or with ``euclidean`` a distance d made a score in [0, 1]: ``linear``
        ``1 - min(d / max_distance, 1)``, ``exponential`` ``exp(-d / scale)``, ``sigmoid`` ``1 / (1 + exp(d / scale))``.
    """
    if similarity == "cosine":
        return (functional.normalize(motion, dim=-1) * functional.normalize(text, dim=-1)).sum(-1)
    distance = (motion - text).square().sum(-1).clamp(min=1e-24).sqrt()
    if normalization == "linear":
        return 1.0 - (distance / max_distance).clamp(0.0, 1.0)
    return torch.exp(-distance / scale) if normalization == "exponential" else torch.sigmoid(-distance / scale)
