"""The clipped surrogate and the KL penalty on ``[N, S]`` decisions: reverse steps, segments of them, or tokens.

Nothing here knows how a decision was made. The caller gives the log-ratio of each decision and a weight that is 0
where a sample has no such decision (a sequence that has ended, a prompt with fewer segments).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError

_LARGE = 20.0  # exp stays finite in float32; above it the ratio grows linearly, so that its gradient does not vanish


def linear_surrogate(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """Return ``-(1 + log r) A``: at r = 1 the gradient of ``-r A``, hence of the clipped surrogate, without exp."""
    return -(1.0 + log_ratio) * advantage


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """Return ``-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)``, elementwise (Schulman et al. 2017, eq. 7).

    Args:
        log_ratio: Any shape, in the units that the clip range is meant in.
        advantage: Same shape.
        clip_low: How far the ratio may fall where A < 0 before the gradient stops.
        clip_high: How far it may rise where A > 0.

    Example:
        >>> clipped_surrogate(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0]), 0.2, 0.25).tolist()
        [-1.0, -1.25]
    """
    ratio = log_ratio.clamp(max=_LARGE).exp() * (1.0 + (log_ratio - _LARGE).clamp(min=0))
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantage)


def kl_k3(log_ratio: Tensor) -> Tensor:
    """Return the estimate ``q/p - 1 - log(q/p)`` of KL(p || q) from samples of p; never negative.

    Unbiased in its value (Schulman 2020, http://joschu.net/blog/kl-approx.html). For policies whose KL has no closed
    form, such as the tokens of a language model; a Gaussian reverse step has one, see `kl_frames`.

    Args:
        log_ratio: ``log q - log p`` of what p sampled, any shape.

    Example:
        >>> kl_k3(torch.tensor([0.0, 1.0, -1.0]))
        tensor([0.0000, 0.7183, 0.3679])
    """
    return log_ratio.expm1() - log_ratio


def weighted_mean(values: Tensor, weight: Tensor, total: int) -> Tensor:
    """Return ``sum(weight * values) / total``; where `weight` is 0, `values` may hold anything, NaN included.

    Args:
        values: ``[N, S]``; their gradient is 0 where `weight` is 0.
        weight: ``[N, S]``, not negative.
        total: Samples of the whole update, so that micro-batches add up to the update's mean.
    """
    present = weight > 0
    return (torch.where(present, values, torch.zeros_like(values)) * weight).sum() / total


@dataclass(frozen=True)
class Surrogate:
    """The policy loss of GRPO and PPO.

    Attributes:
        clip_low: Lower clip range of the ratio, in (0, 1).
        clip_high: Upper clip range.
        on_policy: Use the linear surrogate, which has the same gradient when every rollout gets one optimiser step.

    Example:
        Two sequences of up to two tokens; the second ended after one.

        >>> log_prob = torch.zeros(2, 2, requires_grad=True)
        >>> mask = torch.tensor([[True, True], [True, False]])
        >>> loss = Surrogate().loss(log_prob - log_prob.detach(), torch.tensor([1.0, -0.5]), mask.float(), total=2)
        >>> loss.backward()
        >>> log_prob.grad.tolist()
        [[-0.5, -0.5], [0.25, 0.0]]
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    on_policy: bool = True

    def __post_init__(self) -> None:
        if not (0.0 < self.clip_low < 1.0 and self.clip_high > 0.0):
            raise MotionkitError(
                f"clip_low must be in (0, 1) and clip_high above 0, got {self.clip_low}, {self.clip_high}."
            )

    def loss(self, log_ratio: Tensor, advantage: Tensor, weight: Tensor, *, total: int) -> Tensor:
        """Return the loss of N samples, a scalar with graph.

        Args:
            log_ratio: ``[N, S]`` log-probability now minus that at sampling.
            advantage: ``[N]``, or ``[N, S]`` where each decision has its own; detached.
            weight: ``[N, S]``, not negative, 0 where a sample has no decision. 1 counts every token alike, 1 over a
                sample's number of tokens every sequence alike.
            total: Samples of the whole update: what the mean divides by.

        Raises:
            MotionkitError: Shapes do not fit, or the advantages carry a graph.
        """
        advantage = self._spread(log_ratio, advantage, weight)
        # Before exp, whose backward pass would turn the NaN of a missing decision into a NaN gradient.
        log_ratio = torch.where(weight > 0, log_ratio, torch.zeros_like(log_ratio))
        if self.on_policy:
            return weighted_mean(linear_surrogate(log_ratio, advantage), weight, total)
        return weighted_mean(clipped_surrogate(log_ratio, advantage, self.clip_low, self.clip_high), weight, total)

    @torch.no_grad()
    def measure(self, log_ratio: Tensor, advantage: Tensor, weight: Tensor) -> dict[str, Tensor]:
        """Return ``ratio`` and ``clip_fraction``: means over each sample's decisions, summed over the N samples."""
        advantage = self._spread(log_ratio, advantage, weight)
        ratio = log_ratio.clamp(max=_LARGE).exp()
        stopped = ((ratio > 1 + self.clip_high) & (advantage > 0)) | ((ratio < 1 - self.clip_low) & (advantage < 0))
        present = weight > 0
        count = present.sum(-1).clamp(min=1)  # [N], decisions of each sample
        return {
            "ratio": (torch.where(present, ratio, 0.0).sum(-1) / count).sum(),
            "clip_fraction": ((stopped & present).sum(-1) / count).sum(),
        }

    def _spread(self, log_ratio: Tensor, advantage: Tensor, weight: Tensor) -> Tensor:
        """Return the advantages as ``[N, S]``."""
        samples, decisions = log_ratio.shape
        if advantage.shape not in ((samples,), (samples, decisions)) or weight.shape != log_ratio.shape:
            raise MotionkitError(
                f"log-ratios {tuple(log_ratio.shape)}, advantages {tuple(advantage.shape)} and weights "
                f"{tuple(weight.shape)} do not fit together.",
                why="the surrogate takes [N, S], [N] or [N, S], and [N, S].",
                code=1,
            )
        if advantage.requires_grad:
            raise MotionkitError("advantages must be detached.", why="the gradient must not flow into them.", code=1)
        return advantage[:, None].expand_as(log_ratio) if advantage.ndim == 1 else advantage
