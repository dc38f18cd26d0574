"""The weighted sum of rewards, with one bad sample kept from spoiling the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.rewards.base import Reward
from motionkit.text import Prompt


@dataclass(frozen=True)
class Scored:
    """What N samples earned.

    Attributes:
        total: ``[N]`` weighted reward; 0 where `finite` is False.
        segments: ``[N, K]`` weighted reward per segment; its mean over a sample's own segments is `total`. A reward
            that has no segments counts fully for each of them.
        valid: ``[N, K]`` bool, which segments a sample has.
        finite: ``[N]`` bool, False where some reward could not be computed.
        metrics: Means of every reward and part, by metric name.
    """

    total: Tensor
    segments: Tensor
    valid: Tensor
    finite: Tensor
    metrics: dict[str, float]


class RewardMix:
    """Several rewards as one.

    Args:
        terms: Rewards with their weights, in the order they are summed.
    """

    def __init__(self, terms: Sequence[tuple[Reward, float]]) -> None:
        self.terms = tuple(terms)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest total of the mix, or None when some reward does not tell its own."""
        ends = [(getattr(reward, "bounds", None), weight) for reward, weight in self.terms]
        if any(own is None for own, _ in ends):
            return None
        spans = [sorted(weight * end for end in own) for own, weight in ends if own is not None]
        return sum(low for low, _ in spans), sum(high for _, high in spans)

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> Scored:
        """Score N motions; ``prompts[i]`` belongs to motion i. Gradients flow where the caller leaves them on."""
        device = motions.lengths.device
        counts = torch.tensor([len(prompt.segments) for prompt in prompts], device=device)
        valid = torch.arange(int(counts.max()), device=device) < counts[:, None]
        total = torch.zeros(len(prompts), device=device)
        segments = torch.zeros(valid.shape, device=device)
        metrics: dict[str, float] = {}
        for reward, weight in self.terms:
            scores = reward.score(motions, prompts)
            total = total + weight * scores.total
            own = scores.total[:, None] if scores.segments is None else scores.segments[:, : valid.shape[1]]
            segments = segments + weight * own
            known = scores.total[scores.total.isfinite()]
            metrics[f"reward/{reward.name}/mean"] = float(known.mean()) if len(known) else float("nan")
            metrics |= {f"reward/{reward.name}/{part}": float(value.nanmean()) for part, value in scores.parts.items()}
        finite = total.isfinite()
        return Scored(
            total=torch.where(finite, total, total.new_zeros(())),
            segments=torch.where(valid & finite[:, None], segments, segments.new_zeros(())),
            valid=valid,
            finite=finite,
            metrics=metrics,
        )
