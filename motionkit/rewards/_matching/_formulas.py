"""The formulas, on latents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.rewards._matching import ScoreOptions

_SMALLEST = 1e-24  # squared distance below which a gradient is 0: that of a root has no limit there


@dataclass(frozen=True)
class Similarity:
    """How latents are compared, and how that becomes a score.

    Attributes:
        kind: ``cosine``, or ``euclidean`` distance d.
        normalization: What d becomes: ``linear`` ``1 - min(d / max_distance, 1)``, ``exponential`` ``exp(-d / scale)``
            or ``sigmoid`` ``1 / (1 + exp(d / scale))``.
        max_distance: Distance that scores 0.
        scale: Length scale.
    """

    kind: Literal["cosine", "euclidean"] = "cosine"
    normalization: Literal["linear", "exponential", "sigmoid"] = "linear"
    max_distance: float = 10.0
    scale: float = 2.0

    @classmethod
    def of(cls, options: ScoreOptions) -> Similarity:
        """Return what the options of a reward say."""
        return cls(options.similarity, options.normalization, options.max_distance, options.scale)

    @property
    def lowest(self) -> float:
        """Lowest score."""
        return -1.0 if self.kind == "cosine" else 0.0

    @property
    def highest(self) -> float:
        """Highest score, that of two equal latents."""
        return 0.5 if self.kind == "euclidean" and self.normalization == "sigmoid" else 1.0

    def prepare(self, latents: Tensor) -> Tensor:
        """Return latents ``[..., D]`` as `paired` and `crossed` take them."""
        return functional.normalize(latents, dim=-1) if self.kind == "cosine" else latents

    def paired(self, first: Tensor, second: Tensor) -> Tensor:
        """Compare ``[..., D]`` with ``[..., D]``: the cosine, or minus the distance, ``[...]``."""
        return (first * second).sum(-1) if self.kind == "cosine" else -_distance(first - second)

    def crossed(self, first: Tensor, second: Tensor) -> Tensor:
        """Compare each of ``[N, K, D]`` with each of ``[N, K, D]``, ``[N, K, K]``."""
        if self.kind == "cosine":
            return first @ second.transpose(1, 2)
        return -_distance(first[:, :, None] - second[:, None])

    def score(self, closeness: Tensor) -> Tensor:
        """Turn what `paired` or `crossed` returned into a score between `lowest` and `highest`."""
        if self.kind == "cosine":
            return closeness
        if self.normalization == "linear":
            return 1.0 - (-closeness / self.max_distance).clamp(0.0, 1.0)
        scaled = closeness / self.scale
        return scaled.exp() if self.normalization == "exponential" else scaled.sigmoid()


class DenseTerms(NamedTuple):
    """Per-segment terms, each ``[N, K]``; entries of missing segments are 0."""

    positive: Tensor
    negative: Tensor
    correct: Tensor


def dense_terms(motion: Tensor, text: Tensor, valid: Tensor, similarity: Similarity) -> DenseTerms:
    """Compare every segment of a motion with every text of its prompt.

    With ``S[k,j] = s(m_k, t_j)`` and ``B[k,j] = s(t_k, t_j)``: positive is ``S[k,k]``, negative is
    ``max_{j != k} relu(S[k,j] - B[k,j])``, the worst excess of a wrong text over what the two texts share anyway;
    correct is 1 where no wrong text is closer than the segment's own.

    Args:
        motion: ``[N, K, D]`` latents of the segments.
        text: ``[N, K, D]`` latents of the texts.
        valid: ``[N, K]`` bool, the segments a prompt has.
        similarity: The score s.
    """
    m, t = similarity.prepare(motion), similarity.prepare(text)
    own = torch.eye(valid.shape[1], dtype=torch.bool, device=valid.device)
    near = similarity.paired(m, t)
    # The batched product differs from the sum above in the last bit: S only serves the wrong pairs.
    wrong = valid[:, :, None] & valid[:, None, :] & ~own
    cross, shared = similarity.crossed(m, t), similarity.crossed(t, t)
    zero = cross.new_zeros(())
    excess = (similarity.score(cross) - similarity.score(shared)).relu()
    negative = torch.where(wrong, excess, zero).amax(-1)
    rival = torch.where(wrong, cross, cross.new_full((), -torch.inf)).amax(-1)
    positive = torch.where(valid, similarity.score(near), zero)
    return DenseTerms(positive, negative, (valid & (near >= rival)).to(cross.dtype))


def matching_score(motion: Tensor, text: Tensor, similarity: Similarity) -> Tensor:
    """Score ``[N, D]`` motion latents against ``[N, D]`` text latents, ``[N]``."""
    return similarity.score(similarity.paired(similarity.prepare(motion), similarity.prepare(text)))


def _distance(difference: Tensor) -> Tensor:
    return difference.square().sum(-1).clamp(min=_SMALLEST).sqrt()
