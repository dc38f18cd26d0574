"""The policy objective on scored diffusion steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl._credit import segment_frames
from motionkit.rl._density import frame_sum, kl_frames, log_ratio_frames, step_products, valid_dims
from motionkit.rl._rollout import Transitions

_LARGE = 20.0  # exp stays finite in float32; beyond it the ratio grows linearly, so that a pull back survives
_POWERS = {"mean": 1.0, "root": 0.5, "sum": 0.0}

RatioNorm = Literal["none", "snr", "guard"]
Reduction = Literal["mean", "root", "sum"]


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
    """
    ratio = log_ratio.clamp(max=_LARGE).exp() * (1.0 + (log_ratio - _LARGE).clamp(min=0))
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantage)


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

    Attributes:
        ratio_norm: How steps are made comparable. With ``d = x0 - x0_old`` the log-ratio ``s <eps, d> - s^2/2 |d|^2``
            is left alone (``none``), divided by the step's sensitivity s (``snr``: every step weighs the same, where
            x0-prediction otherwise puts 84 % of the information into the last three steps), or turned into
            ``c_x0 <eps, d>`` (``guard``: GRPO-Guard, zero mean by construction).
        reduction: Divide the sum over a term's D values by D (``mean``), its root (``root``: the length of the move
            along eps, which does not shrink with the motion's length) or nothing (``sum``). It fixes the unit of the
            clip range.
        clip_low: Lower clip range, in units of the normalised ratio.
        clip_high: Upper clip range.
        kl_coef: Weight of the KL to the reference, in nats per valid value and step.
        on_policy: Use the linear surrogate: right, and cheaper, when every rollout gets one optimiser step.
    """

    ratio_norm: RatioNorm = "snr"
    reduction: Reduction = "root"
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl_coef: float = 0.0
    on_policy: bool = True

    def __post_init__(self) -> None:
        if self.ratio_norm not in ("none", "snr", "guard") or self.reduction not in _POWERS:
            raise MotionkitError(
                f"unknown ratio_norm {self.ratio_norm!r} or reduction {self.reduction!r}.",
                fix="ratio_norm is none, snr or guard; reduction is mean, root or sum.",
            )
        if not (0.0 < self.clip_low < 1.0 and self.clip_high > 0.0 and self.kl_coef >= 0.0):
            raise MotionkitError(
                "clip_low must be in (0, 1), clip_high above 0 and kl_coef at least 0, "
                f"got {self.clip_low}, {self.clip_high}, {self.kl_coef}."
            )

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

        Raises:
            MotionkitError: The states carry a graph (their gradient would cancel the policy's), a KL is asked
                without a reference, or shapes do not fit.
        """
        self._check(rows, advantage, bounds, x0_reference)
        width = x0.shape[-1]
        dims = valid_dims(mask, width)
        linear, quadratic = self._coefficients(rows)
        along, square = step_products(x0, rows.x0_old, rows.eps, mask)
        # On policy d = 0, where the quadratic term has neither value nor gradient.
        frames = linear[:, None] * along if self.on_policy else linear[:, None] * along + quadratic[:, None] * square
        power = _POWERS[self.reduction]
        if bounds is None:
            log_ratio, part = frames.sum(-1)[:, None] / dims[:, None] ** power, torch.ones_like(dims)[:, None]
            advantage = advantage[:, None]
        else:
            owned = segment_frames(bounds, x0.shape[1]) & mask[:, None]
            own_dims = owned.sum(-1).to(dims.dtype) * width
            log_ratio = torch.einsum("mkt,mt->mk", owned.to(frames.dtype), frames) / own_dims.clamp(min=1) ** power
            # With these shares the terms add up to the unsegmented one when all segments have one advantage.
            part = torch.where(own_dims > 0, (own_dims / dims[:, None]) ** power, torch.zeros_like(own_dims))
        if self.on_policy:
            terms = linear_surrogate(log_ratio, advantage)
        else:
            terms = clipped_surrogate(log_ratio, advantage, self.clip_low, self.clip_high)
        policy = (terms * part).sum() / total
        exact = _exact(rows, along, square) / dims
        sums = self._measure(log_ratio, advantage, part)
        sums["log_ratio_per_dim"] = exact.sum()
        before = _log_prob_old(rows, mask, dims)
        sums["logp_current_per_dim"] = (before + exact).sum()
        sums["policy"] = policy.detach() * total
        loss = policy
        if x0_reference is not None:
            nats = kl_frames(x0, x0_reference, rows.sensitivity, mask).sum(-1)
            kl = (nats / dims).sum() / total
            if self.kl_coef > 0:
                loss = loss + self.kl_coef * kl
            sums |= {"kl": self.kl_coef * kl.detach() * total, "kl_per_dim": kl.detach() * total}
            sums["kl_nats"] = nats.detach().sum()
            sums["logp_reference_per_dim"] = (before + _reference(rows, x0_reference, mask) / dims).sum()
        return Terms(loss, {name: value / total for name, value in sums.items()}, exact)

    def _coefficients(self, rows: Transitions) -> tuple[Tensor, Tensor]:
        s = rows.sensitivity
        if self.ratio_norm == "none":
            return s, -0.5 * s.square()
        if self.ratio_norm == "snr":
            return torch.ones_like(s), -0.5 * s
        return rows.c_x0, torch.zeros_like(s)

    def _check(self, rows: Transitions, advantage: Tensor, bounds: Tensor | None, x0_reference: Tensor | None) -> None:
        if rows.x_t.requires_grad or rows.eps.requires_grad or rows.x0_old.requires_grad:
            raise MotionkitError(
                "the rollout still carries a graph.",
                why="the gradient through the sampled states cancels the policy gradient exactly: nothing is learnt.",
                fix="sample under torch.no_grad().",
                code=1,
            )
        expected = (len(rows),) if bounds is None else (len(rows), bounds.shape[1])
        if advantage.shape != expected or advantage.requires_grad:
            raise MotionkitError(
                f"advantages must be detached and of shape {expected}, got {tuple(advantage.shape)}.",
                why="one per pair, or one per pair and segment where segment bounds are given.",
                code=1,
            )
        if self.kl_coef > 0 and x0_reference is None:
            raise MotionkitError("a KL coefficient above 0 needs the reference's predictions.", code=1)

    @torch.no_grad()
    def _measure(self, log_ratio: Tensor, advantage: Tensor, part: Tensor) -> dict[str, Tensor]:
        ratio = log_ratio.clamp(max=_LARGE).exp()
        stopped = ((ratio > 1 + self.clip_high) & (advantage > 0)) | ((ratio < 1 - self.clip_low) & (advantage < 0))
        present = (part > 0).to(ratio.dtype)
        each = present.sum(-1).clamp(min=1)
        return {
            "ratio": ((ratio * present).sum(-1) / each).sum(),
            "clip_fraction": ((stopped * present).sum(-1) / each).sum(),
        }


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
