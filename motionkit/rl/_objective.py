"""The policy gradient on reverse steps of a diffusion policy: log-ratio, KL, clipped surrogate, and its checks.

In this order: the frames of samples and segments; log-ratio and KL of Gaussian reverse steps in closed form; the
surrogate on ``[N, S]`` decisions, which may be tokens too; the `Objective` of both; the ratio audit before the first
update.

Log-ratios and KL are nats per frame, ``[M, T]``, in float32 or wider, exactly 0 at padding. Their sum over frames,
divided by `valid_dims` (the number of the sample's valid values), is comparable between long and short motions.
Padding may hold NaN: it changes neither values nor gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from motionkit.errors import MotionkitError
from motionkit.nn import differences, squared_length, zeroed
from motionkit.rl._rollout import Transitions

Precision = Literal["float32", "bfloat16", "float16"]
RatioNorm = Literal["none", "snr", "guard"]

_LARGE = 20.0  # exp stays finite in float32; above it the ratio grows linearly, so that its gradient does not vanish


def length_mask(lengths: Tensor, frames: int) -> Tensor:
    """Return ``[N, frames]`` bool, True below each of the `lengths` ``[N]``."""
    return torch.arange(frames, device=lengths.device) < lengths[:, None]


def segment_frames(bounds: Tensor, frames: int) -> Tensor:
    """Return the mask of each segment's frames.

    Args:
        bounds: ``[N, K, 2]`` int64 half-open frame ranges; an absent segment is ``(0, 0)``.
        frames: T.

    Returns:
        ``[N, K, T]`` bool.

    Example:
        >>> segment_frames(torch.tensor([[[0, 2], [2, 3]]]), 4).int().tolist()
        [[[1, 1, 0, 0], [0, 0, 1, 0]]]
    """
    # [T] against [N, K, 1]
    index = torch.arange(frames, device=bounds.device)
    return (index >= bounds[..., :1]) & (index < bounds[..., 1:])


def segment_bounds(
    ranges: Sequence[Sequence[tuple[int, int]]],  # ``(first, end)`` of each segment of each sample, at least one
    device: torch.device | str = "cpu",
) -> Tensor:
    """Return ``[N, K, 2]`` int64 frame ranges of the segments, padded with (0, 0) for samples that have fewer.

    Example:
        >>> segment_bounds([[(0, 40), (40, 100)], [(0, 60)]]).tolist()
        [[[0, 40], [40, 100]], [[0, 60], [0, 0]]]
    """
    most = max(len(row) for row in ranges)
    return torch.tensor([[*row, *[(0, 0)] * (most - len(row))] for row in ranges], dtype=torch.int64, device=device)


class _FrameProducts(torch.autograd.Function):
    """``<direction, d>`` and ``|d|^2`` per frame with ``d = x0 - origin``; only x0 has a gradient.

    Written out because the masks then act on ``[M, T]`` in the forward pass and once, in place, in the backward pass:
    on motions, autograd's own version spends most of its time selecting and allocating. Products are summed, never
    multiplied as matrices, whose float32 may be rounded to TF32 or bfloat16.
    """

    @staticmethod
    def forward(
        ctx: Any, x0: Tensor, origin: Tensor, direction: Tensor | None, mask: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        moved = x0.to(origin.dtype) - origin
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(moved, direction, mask)
        ctx.dtype = x0.dtype
        along = None if direction is None else frame_sum(moved * direction, mask)
        return along, frame_sum(moved.square(), mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, along: Tensor | None, square: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        moved, direction, mask = ctx.saved_tensors
        grad: Tensor | None = None
        if along is not None:
            # d<d, direction>/dx0 = direction and d|d|^2/dx0 = 2 d, each times the incoming gradient [M, T, 1].
            grad = along[..., None] * direction
        if square is not None:
            slope = 2 * square[..., None] * moved
            grad = slope if grad is None else grad.add_(slope)
        if grad is not None:
            grad = grad.masked_fill_(~mask[..., None], 0).to(ctx.dtype)
        return grad, None, None, None


_frame_products: Callable[[Tensor, Tensor, Tensor | None, Tensor], tuple[Any, Tensor]] = _FrameProducts.apply


def frame_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum ``[M, T, D]`` over features to ``[M, T]``, exactly 0 where `mask` is False."""
    return torch.where(mask, values.sum(-1), 0.0)


def valid_dims(mask: Tensor, width: int) -> Tensor:
    """Count a sample's valid values: frames times features.

    Args:
        mask: ``[M, T]`` bool, True = valid.
        width: Features per frame D.

    Returns:
        ``[M]`` float32, at least 1.
    """
    return (mask.sum(-1) * width).clamp(min=1).to(torch.float32)


def roughness(moved: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared second difference over time, 0 for what changes evenly.

    Args:
        moved: ``[M, T, D]``.
        mask: ``[M, T]`` bool, True = valid; padding does not count.

    Returns:
        ``[M]``; 0 for fewer than three valid frames.

    Example:
        >>> still, trembling = torch.ones(4), torch.tensor([1.0, -1.0, 1.0, -1.0])
        >>> roughness(torch.stack([still, trembling])[..., None], torch.ones(2, 4, dtype=torch.bool)).tolist()
        [0.0, 16.0]
    """
    moved = zeroed(moved, mask)
    # A second difference is valid if all three of its frames are.
    valid = mask[:, 2:] & mask[:, 1:-1] & mask[:, :-2]
    bend = squared_length(differences(differences(moved))).masked_fill(~valid, 0.0)
    return bend.sum(1) / valid_dims(valid, moved.shape[-1])


def step_products(x0: Tensor, x0_old: Tensor, eps: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``<eps, d>`` and ``|d|^2`` per frame, ``d = x0 - x0_old``; every ratio of a step follows from these two.

    Args:
        x0: ``[M, T, D]`` predictions of the policy being trained; cast to the type of `eps`.
        x0_old: ``[M, T, D]`` predictions at rollout.
        eps: ``[M, T, D]`` noise that was added.
        mask: ``[M, T]`` bool, True = valid.

    Returns:
        Two ``[M, T]`` tensors, 0 at padding.
    """
    return _frame_products(x0, x0_old, eps, mask)


def log_ratio_frames(x0: Tensor, x0_old: Tensor, eps: Tensor, sensitivity: Tensor, mask: Tensor) -> Tensor:
    """Return log pi(x_next) - log pi_old(x_next) in nats per frame, exactly: ``s <eps, d> - s^2 / 2 |d|^2``.

    Since x_next = mean_old + sigma eps, the difference of the two densities reduces to this form, which needs no
    density and loses no digits. Arguments as in `step_products`; `sensitivity` is ``[M]``.
    """
    along, square = step_products(x0, x0_old, eps, mask)
    return sensitivity[:, None] * along - (0.5 * sensitivity.square())[:, None] * square


def kl_frames(x0: Tensor, x0_reference: Tensor, sensitivity: Tensor, mask: Tensor) -> Tensor:
    """Return KL(pi || reference) of one step in nats per frame, in closed form: ``s^2 / 2 |x0 - x0_reference|^2``.

    Both policies share the step's variance. The trajectory's KL is the sum over its steps. Exactly 0 for equal inputs.

    Args:
        x0: ``[M, T, D]`` predictions of the policy; cast to the type of `x0_reference`.
        x0_reference: ``[M, T, D]`` predictions of the reference at the same states.
        sensitivity: ``[M]``.
        mask: ``[M, T]`` bool, True = valid.

    Returns:
        ``[M, T]``, 0 at padding.

    Example:
        >>> x0, mask = torch.zeros(1, 4, 3), torch.tensor([[True, True, True, False]])
        >>> kl_frames(x0 + 1, x0, torch.tensor([2.0]), mask)  # s^2 / 2 = 2 nats for each of 3 features
        tensor([[6., 6., 6., 0.]])
    """
    _, square = _frame_products(x0, x0_reference, None, mask)
    return (0.5 * sensitivity.square())[:, None] * square


def linear_surrogate(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """Return ``-(1 + log r) A``: at r = 1 the gradient of ``-r A``, hence of the clipped surrogate, without exp."""
    return -(1.0 + log_ratio) * advantage


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """Return ``-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)``, elementwise (Schulman et al. 2017, eq. 7).

    Args:
        log_ratio: Any shape, in the units of the clip range.
        advantage: Same shape.
        clip_low: How far the ratio may fall, if A < 0, before the gradient stops.
        clip_high: How far it may rise, if A > 0.

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
        log_ratio: ``log q - log p`` of samples of p, any shape.

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
    return (torch.where(present, values, 0.0) * weight).sum() / total


@dataclass(frozen=True)
class Surrogate:
    """The policy loss of GRPO and PPO on ``[N, S]`` decisions: reverse steps, segments of them, or tokens.

    The caller gives the log-ratio of each decision and a weight, which is 0 at padding (a sequence that has ended, a
    prompt with fewer segments).

    Example:
        Two sequences of up to two tokens; the second ended after one.

        >>> log_prob = torch.zeros(2, 2, requires_grad=True)
        >>> mask = torch.tensor([[True, True], [True, False]])
        >>> loss = Surrogate().loss(log_prob - log_prob.detach(), torch.tensor([1.0, -0.5]), mask.float(), total=2)
        >>> loss.backward()
        >>> log_prob.grad.tolist()
        [[-0.5, -0.5], [0.25, 0.0]]
    """

    clip_low: float = 0.2  # Lower clip range of the ratio, in (0, 1)
    clip_high: float = 0.2  # Upper clip range
    # Use the linear surrogate, which has the same gradient when every rollout gets one optimiser step.
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
            advantage: ``[N]``, or ``[N, S]`` if each decision has its own; detached.
            weight: ``[N, S]``, not negative, 0 at padding. 1 counts every token alike, 1 over a sample's number of
                tokens every sequence alike.
            total: Samples of the whole update: what the mean divides by.
        """
        advantage = self._spread(log_ratio, advantage, weight)
        # Before exp, whose backward pass would turn the NaN of padding into a NaN gradient.
        log_ratio = torch.where(weight > 0, log_ratio, 0.0)
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


@dataclass(frozen=True, eq=False)
class Terms:
    """The loss of one micro-batch, and sums for the metrics."""

    loss: Tensor  # Scalar with graph. Losses of the micro-batches of one update add up to the update's loss.
    # Detached scalars, additive like the loss: ``policy``, ``ratio``, ``clip_fraction``, ``log_ratio_per_dim``,
    # ``logp_current_per_dim``, and with a reference ``kl``, ``kl_nats``, ``kl_per_dim``, ``logp_reference_per_dim``.
    # Summed over the micro-batches they are means over all pairs of the update.
    sums: Mapping[str, Tensor]
    log_ratio_per_dim: Tensor  # ``[M]`` detached exact log-ratio averaged over valid values, for `audit_ratio`


@dataclass(frozen=True)
class Objective:
    """Policy gradient on (sample, timestep) or (sample, timestep, segment) terms, plus exact KL.

    A term's log-ratio is divided by the root of its number of values: the length of the move along the noise, which
    does not shrink with the motion's length. That is the unit of the clip range.
    """

    # How steps are made comparable. With ``d = x0 - x0_old`` the log-ratio ``s <eps, d> - s^2/2 |d|^2`` is left as it
    # is (``none``), divided by the step's sensitivity s (``snr``: every step weighs the same, while x0-prediction
    # otherwise puts 84 % of the information into the last three steps), or turned into ``c_x0 <eps, d>`` (``guard``:
    # the ratio of GRPO-Guard, Wang et al. 2025, arXiv:2510.22319, zero mean by construction; its code also divides each
    # step's loss by the step's length in flow time, which is left out here: ``snr`` makes the steps equal).
    ratio_norm: RatioNorm = "snr"
    kl_coef: float = 0.0  # Weight of the KL to the reference, in nats per valid value and step
    surrogate: Surrogate = field(default_factory=Surrogate)  # Policy loss of the log-ratios

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
            explored: Projection P of ``[M, T, D]`` on the part of the noise that the samples of a group do not share,
                if they share some: log-ratios are those of this part, with ``P eps`` and ``P d``.
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
    """Sum the log-ratio by frame, ``[M, T]``, over each term's frames; without `bounds` one term has all frames.

    Returns the log-ratio over the root of a term's number of values, and the term's weight, ``[M, S]`` each.
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
    """Log-density per dimension of the sampled step under the policy that took it; depends on eps and sigma alone."""
    noise = frame_sum(rows.eps.square(), mask).sum(-1)
    return -0.5 * noise / dims - rows.sigma.log() - 0.5 * math.log(2 * math.pi)


def ratio_bound(sensitivity: Tensor, precision: Precision = "float32") -> Tensor:
    """Return how far the per-dimension mean log-ratio of an unchanged policy may be from 0.

    float32: 1e-6 at every step. Half precision: a rounding error of rms 0.014 in x0 shifts the mean by
    ``-s^2 / 2 * 0.014^2``, hence ``1e-4 max(1, s^2)`` (measured for a bf16 forward of an 8-layer transformer against
    float32: 2e-2 at s = 19.7, 6e-4 at 3.2, 4e-5 at 0.5).

    Args:
        sensitivity: ``[M]`` of the steps.
        precision: What the network computes in.
    """
    if precision == "float32":
        return torch.full_like(sensitivity, 1e-6)
    return 1e-4 * sensitivity.square().clamp(min=1.0)


def audit_ratio(
    log_ratio_per_dim: Tensor, sensitivity: Tensor, timestep: Tensor, precision: Precision = "float32"
) -> dict[int, float]:
    """Raise (exit code 1) if a policy that was not updated yet does not give its own samples ratio 1.

    The log-ratio must be finite and within `ratio_bound`.

    Args:
        log_ratio_per_dim: ``[M]`` from `Terms` of the first update, exact log-ratio averaged over valid values.
        sensitivity: ``[M]`` of the same pairs.
        timestep: ``[M]`` int64 of the same pairs.
        precision: What the network computes in.

    Returns:
        The largest absolute value per timestep, for the log.

    Example:
        >>> audit_ratio(torch.tensor([0.0, 2e-7]), torch.tensor([1.0, 3.0]), torch.tensor([40, 10]))
        {40: 0.0, 10: 2...e-07}
    """
    size = log_ratio_per_dim.detach().abs()
    table: dict[int, float] = {}
    for step, value in zip(timestep.tolist(), size.tolist(), strict=True):
        largest = table.get(step, 0.0)
        table[step] = value if value != value or value > largest else largest
    excess = size / ratio_bound(sensitivity, precision)
    worst = int(excess.argmax()) if len(excess) else 0  # NaN counts as the largest
    if len(excess) and not bool(excess[worst] <= 1.0):
        limit = ratio_bound(sensitivity[worst : worst + 1], precision).item()
        raise MotionkitError(
            f"before the first update the mean log-ratio at timestep {int(timestep[worst])} is "
            f"{size[worst].item():.3g} per dimension; {limit:.3g} is allowed in {precision}.",
            why="an unchanged policy must give its own samples ratio 1: rollout and training compute different things.",
            fix="look for dropout or condition dropping that is still on, another guidance scale, different precision "
            "or compilation in one of the two paths, other weights (EMA, adapters off), or padding that leaks in.",
            code=1,
        )
    return table


def require_eval(network: nn.Module) -> None:
    """Refuse a policy network in training mode."""
    for name, module in network.named_modules():
        if module.training:
            raise MotionkitError(
                f"the policy network is in training mode ({name or 'the network'}: {type(module).__name__}).",
                why="dropout in rollout or training makes every ratio random.",
                fix="call network.eval(); gradients do not need training mode.",
                code=1,
            )
