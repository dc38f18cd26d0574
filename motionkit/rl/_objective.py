"""The objective on Gaussian reverse steps of a diffusion policy: log-ratio and KL in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl._credit import segment_frames
from motionkit.rl._density import frame_sum, kl_frames, log_ratio_frames, step_products, valid_dims
from motionkit.rl._rollout import Transitions
from motionkit.rl._surrogate import Surrogate, weighted_mean

RatioNorm = Literal["none", "snr", "guard"]


@dataclass(frozen=True, eq=False)
class Terms:
    """What one micro-batch adds.

    Attributes:
        loss: Scalar with graph. Losses of the micro-batches of one update add up to the update's loss.
        sums: Detached scalars, additive like the loss: ``policy``, ``ratio``, ``clip_fraction``, ``log_ratio_per_dim``,
            ``logp_current_per_dim``, and with a reference ``kl``, ``kl_nats``, ``kl_per_dim``,
            ``logp_reference_per_dim``. Summed over the micro-batches they are means over all pairs of the update.
        log_ratio_per_dim: ``[M]`` detached exact log-ratio averaged over valid values, for `audit_ratio`.
    """

    loss: Tensor
    sums: Mapping[str, Tensor]
    log_ratio_per_dim: Tensor


@dataclass(frozen=True)
class Objective:
    """Policy gradient on (sample, timestep) or (sample, timestep, segment) terms, plus exact KL.

    A term's log-ratio is divided by the root of its number of values: the length of the move along the noise, which
    does not shrink with the motion's length. That is the unit of the clip range.

    Attributes:
        ratio_norm: How steps are made comparable. With ``d = x0 - x0_old`` the log-ratio ``s <eps, d> - s^2/2 |d|^2``
            is left alone (``none``), divided by the step's sensitivity s (``snr``: every step weighs the same, where
            x0-prediction otherwise puts 84 % of the information into the last three steps), or turned into
            ``c_x0 <eps, d>`` (``guard``: the ratio of GRPO-Guard, Wang et al. 2025, arXiv:2510.22319, zero mean by
            construction; its code also divides each step's loss by the step's length in flow time, which is left out
            here: ``snr`` makes the steps equal).
        kl_coef: Weight of the KL to the reference, in nats per valid value and step.
        surrogate: Policy loss of the log-ratios.
    """

    ratio_norm: RatioNorm = "snr"
    kl_coef: float = 0.0
    surrogate: Surrogate = field(default_factory=Surrogate)

    def __post_init__(self) -> None:
        if self.ratio_norm not in ("none", "snr", "guard"):
            raise MotionkitError(f"unknown ratio_norm {self.ratio_norm!r}.", fix="ratio_norm is none, snr or guard.")
        if self.kl_coef < 0.0:
            raise MotionkitError(f"kl_coef must be at least 0, got {self.kl_coef}.")

    def __call__(
        self,
        rows: Transitions,
        x0: Tensor,
        advantage: Tensor,
        mask: Tensor,
        *,
        total: int,
        bounds: Tensor | None = None,
        x0_reference: Tensor | None = None,
        explored: Callable[[Tensor], Tensor] | None = None,
    ) -> Terms:
        """Score M pairs.

        Args:
            rows: The pairs, from `Trajectory.pairs`.
            x0: ``[M, T, D]`` predictions with graph at ``rows.x_t``.
            advantage: ``[M]``, or ``[M, K]`` with `bounds`: each segment's advantage acts on its own frames only.
            mask: ``[M, T]`` bool, True = valid.
            total: Pairs of the whole update (all micro-batches): what the means divide by.
            bounds: ``[M, K, 2]`` int64 frame ranges of the segments.
            x0_reference: ``[M, T, D]`` reference predictions at the same states, for the KL.
            explored: Projection P of ``[M, T, D]`` on the part of the noise in which the samples of a group differ,
                where they share the rest: log-ratios are those of this part, with ``P eps`` and ``P d``.

        Raises:
            MotionkitError: The states carry a graph (their gradient would cancel the policy's), a KL is asked
                without a reference, or shapes do not fit.
        """
        self._check(rows, x0_reference)
        dims = valid_dims(mask, x0.shape[-1])
        linear, quadratic = self._coefficients(rows)
        along, square = self._products(rows, x0, mask, explored)
        # frames [M, T]: the log-ratio by frame, linear <eps, d> + quadratic |d|^2.
        # On policy d = 0, where the quadratic term has neither value nor gradient.
        frames = linear[:, None] * along
        if not self.surrogate.on_policy:
            frames = frames + quadratic[:, None] * square
        log_ratio, share = _terms(frames, dims, mask, x0.shape[-1], bounds)  # [M, S] each, S = 1 without segments
        policy = self.surrogate.loss(log_ratio, advantage, share, total=total)
        exact = _exact(rows, along, square) / dims
        sums = self.surrogate.measure(log_ratio, advantage, share)
        sums["log_ratio_per_dim"] = exact.sum()
        before = _log_prob_old(rows, mask, dims)
        sums["logp_current_per_dim"] = (before + exact).sum()
        sums["policy"] = policy.detach() * total
        loss = policy
        if x0_reference is not None:
            nats = kl_frames(x0, x0_reference, rows.sensitivity, mask).sum(-1)
            kl = weighted_mean((nats / dims)[:, None], torch.ones_like(dims)[:, None], total)
            if self.kl_coef > 0:
                loss = loss + self.kl_coef * kl
            sums |= {"kl": self.kl_coef * kl.detach() * total, "kl_per_dim": kl.detach() * total}
            sums["kl_nats"] = nats.detach().sum()
            sums["logp_reference_per_dim"] = (before + _reference(rows, x0_reference, mask) / dims).sum()
        return Terms(loss, {name: value / total for name, value in sums.items()}, exact)

    def _products(
        self, rows: Transitions, x0: Tensor, mask: Tensor, explored: Callable[[Tensor], Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Return ``<P eps, d>`` and ``|P d|^2`` by frame, ``[M, T]``; P is the identity without `explored`."""
        if explored is None:
            return step_products(x0, rows.x0_old, rows.eps, mask)
        # <P eps, d> rather than <P eps, P d>: the same sum, but no frame's prediction counts in another frame.
        along, square = step_products(x0, rows.x0_old, explored(rows.eps), mask)
        if not self.surrogate.on_policy:
            moved = explored(x0.to(rows.x0_old.dtype) - rows.x0_old)
            square = frame_sum(moved.square(), mask)
        return along, square

    def _coefficients(self, rows: Transitions) -> tuple[Tensor, Tensor]:
        s = rows.sensitivity
        if self.ratio_norm == "none":
            return s, -0.5 * s.square()
        if self.ratio_norm == "snr":
            return torch.ones_like(s), -0.5 * s
        return rows.c_x0, torch.zeros_like(s)

    def _check(self, rows: Transitions, x0_reference: Tensor | None) -> None:
        if rows.x_t.requires_grad or rows.eps.requires_grad or rows.x0_old.requires_grad:
            raise MotionkitError(
                "the rollout still carries a graph.",
                why="the gradient through the sampled states cancels the policy gradient exactly: nothing is learnt.",
                fix="sample under torch.no_grad().",
                code=1,
            )
        if self.kl_coef > 0 and x0_reference is None:
            raise MotionkitError("a KL coefficient above 0 needs the reference's predictions.", code=1)


def _terms(frames: Tensor, dims: Tensor, mask: Tensor, width: int, bounds: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sum the log-ratio over each term's frames.

    Args:
        frames: ``[M, T]`` log-ratio by frame.
        dims: ``[M]`` valid values of each pair.
        mask: ``[M, T]`` bool.
        width: Features per frame D.
        bounds: ``[M, K, 2]`` frame ranges of the segments; None for one term that has all frames.

    Returns:
        Log-ratio over the root of a term's number of values, and the term's weight, ``[M, S]`` each.
    """
    if bounds is None:
        return frames.sum(-1)[:, None] / dims[:, None].sqrt(), torch.ones_like(dims)[:, None]
    owned = segment_frames(bounds, frames.shape[1]) & mask[:, None]  # [M, K, T]
    own_dims = owned.sum(-1).to(dims.dtype) * width
    log_ratio = torch.einsum("mkt,mt->mk", owned.to(frames.dtype), frames) / own_dims.clamp(min=1).sqrt()
    # With these weights the terms add up to the unsegmented one when all segments have one advantage:
    # sqrt(own / all) * sum_own / sqrt(own) = sum_own / sqrt(all).
    return log_ratio, (own_dims / dims[:, None]).sqrt()


@torch.no_grad()
def _exact(rows: Transitions, along: Tensor, square: Tensor) -> Tensor:
    s = rows.sensitivity
    return s * along.sum(-1) - 0.5 * s.square() * square.sum(-1)


@torch.no_grad()
def _reference(rows: Transitions, x0_reference: Tensor, mask: Tensor) -> Tensor:
    return log_ratio_frames(x0_reference, rows.x0_old, rows.eps, rows.sensitivity, mask).sum(-1)


@torch.no_grad()
def _log_prob_old(rows: Transitions, mask: Tensor, dims: Tensor) -> Tensor:
    """Log-density of the sampled step under the policy that took it, which only eps and sigma decide."""
    noise = frame_sum(rows.eps.square(), mask).sum(-1)
    return -0.5 * noise / dims - rows.sigma.log() - 0.5 * math.log(2 * math.pi)
