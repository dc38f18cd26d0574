"""The losses of TMR, as pure functions of latents and decoded motions.

Source: Petrovich et al., "TMR: Text-to-Motion Retrieval" (ICCV 2023), section 3; the filter is its equation for false
negatives.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.encoders.tmr._network import Latent
from motionkit.trainers.pretrain._contrast import Beside, info_nce


def reconstruction(
    decoded_from_text: Tensor, decoded_from_motion: Tensor, target: Tensor, *, elements: int = 0
) -> Tensor:
    """Sum of both Smooth L1 (beta 1) means over all elements of ``[B, T, F]``; padding is 0 against 0 and counts.

    Args:
        decoded_from_text: ``[B, T, F]``, 0 in padded frames.
        decoded_from_motion: ``[B, T, F]``, 0 in padded frames.
        target: ``[B, T, F]`` normalised motions, 0 in padded frames.
        elements: Number to divide by when this is part of a batch; 0 takes the elements of `target`.
    """
    both = (decoded_from_text, decoded_from_motion)
    total = torch.stack([F.smooth_l1_loss(decoded, target, reduction="sum") for decoded in both]).sum()
    return total / (elements or target.numel())


def kl_gaussian(p: Latent, q: Latent) -> Tensor:
    """Mean over ``[B, D]`` of KL(p || q) of diagonal Gaussians, in nats."""
    ratio = torch.exp(p.logvar - q.logvar)
    return 0.5 * (ratio + (p.mu - q.mu).square() * torch.exp(-q.logvar) - 1 - (p.logvar - q.logvar)).mean()


def kl_latents(text: Latent, motion: Latent) -> Tensor:
    """KL(t||m) + KL(m||t) + KL(m||N(0,1)) + KL(t||N(0,1))."""
    prior = Latent(torch.zeros_like(text.mu), torch.zeros_like(text.mu))
    pairs = ((text, motion), (motion, text), (motion, prior), (text, prior))
    return torch.stack([kl_gaussian(p, q) for p, q in pairs]).sum()


def contrastive(
    text: Tensor,
    motion: Tensor,
    *,
    temperature: float,
    sentences: Tensor | None = None,
    threshold: float = 0.8,
    beside: Beside | None = None,
) -> Tensor:
    """Symmetric InfoNCE of cosines, without the pairs whose sentences say the same.

    Args:
        text: ``[B, D]`` latents.
        motion: ``[B, D]`` latents, row i belongs to text i.
        temperature: Divides the cosines.
        sentences: ``[B, F]`` unit-norm sentence embeddings; a pair i != j with a dot product above
            ``2 threshold - 1`` is left out of both directions. None filters nothing.
        threshold: See `sentences`.
        beside: Changed copies as further wrong answers, which no filter leaves out; see `info_nce`.
    """
    logits = F.normalize(text, dim=-1) @ F.normalize(motion, dim=-1).T / temperature
    if sentences is not None:
        same = (sentences @ sentences.T > 2 * threshold - 1) & ~torch.eye(
            len(text), dtype=torch.bool, device=text.device
        )
        logits = logits.masked_fill(same, -torch.inf)
    return info_nce(logits, beside)


def scores(text: Tensor, motion: Tensor, *, temperature: float) -> Tensor:
    """Return ``[B]``, the cosine of each row of two ``[B, D]``, divided by the temperature."""
    return (F.normalize(text, dim=-1) * F.normalize(motion, dim=-1)).sum(-1) / temperature
