"""From rewards of a group of samples to advantages, of whole samples or of their segments.

Scores are ``[N]``, or ``[N, K]`` with one column per segment: then every column has its own baseline within the group.
Groups are integer ids, never texts, so that the same caption drawn twice stays two groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl._noise import noise_key

_SHUFFLE = -2  # a timestep no sampler visits: keeps the shuffle's stream apart from the noise
_FLAT = 1e-6  # spread below this share of the largest score is rounding, not signal


@dataclass(frozen=True, eq=False)
class Advantages:
    """Advantages of N samples over their groups."""

    values: Tensor  # ``[N]`` or ``[N, K]`` float32; exactly 0 where invalid and in groups without variance
    # Scalar int64 tensor: groups (per segment) with no spread, or with fewer than two valid scores.
    zero_variance: Tensor
    groups: Tensor  # Scalar int64 tensor: groups (per segment) with at least one valid score


def group_std(
    scores: Tensor, groups: Tensor, *, valid: Tensor | None = None, std_floor: float = 0.0, clip: float | None = 5.0
) -> Advantages:
    """Centre by the group's mean and divide by its own standard deviation (Shao et al. 2024, arXiv 2402.03300).

    Args:
        scores: ``[N]`` or ``[N, K]`` rewards; NaN counts as invalid.
        groups: ``[N]`` int64 group ids.
        valid: Same shape as `scores`, bool; False leaves a score out of every statistic.
        std_floor: Added in quadrature, ``sqrt(std^2 + floor^2)``: reward noise is not blown up to unit variance.
        clip: Largest absolute advantage; None for no limit.

    Example:
        >>> group_std(torch.tensor([1.0, 2.0, 3.0, 5.0, 5.0, 5.0]), torch.tensor([0, 0, 0, 1, 1, 1])).values
        tensor([-1.,  0.,  1.,  0.,  0.,  0.])
    """
    return _advantages(scores, groups, valid, "mean", "group", std_floor, clip)


def global_std(
    scores: Tensor, groups: Tensor, *, valid: Tensor | None = None, std_floor: float = 0.0, clip: float | None = 5.0
) -> Advantages:
    """Centre by the group's mean and divide by the standard deviation of the whole batch; arguments as `group_std`."""
    return _advantages(scores, groups, valid, "mean", "batch", std_floor, clip)


def leave_one_out(
    scores: Tensor,
    groups: Tensor,
    *,
    valid: Tensor | None = None,
    std_floor: float = 0.0,
    clip: float | None = 5.0,
    scale: Literal["group", "batch", "none"] = "batch",
) -> Advantages:
    """Subtract the mean of the *other* samples of the group (Kool et al. 2019): an unbiased baseline.

    A baseline that contains the sample itself shrinks the gradient by 1 - 1/G. Arguments as `group_std`; `scale`
    chooses the standard deviation to divide by, ``none`` keeps the units of the reward.

    Example:
        >>> leave_one_out(torch.tensor([1.0, 3.0]), torch.tensor([0, 0]), scale="none").values
        tensor([-2.,  2.])
    """
    return _advantages(scores, groups, valid, "leave_one_out", scale, std_floor, clip)


def group_mean(
    scores: Tensor, groups: Tensor, *, valid: Tensor | None = None, std_floor: float = 0.0, clip: float | None = 5.0
) -> Advantages:
    """Centre by the group's mean and divide by nothing: Dr. GRPO (Liu et al. 2025, arXiv:2503.20783).

    A standard deviation per group gives prompts that are too easy or too hard more weight. Dr. GRPO also drops the
    division of a response's loss by its own length, with which long wrong answers cost less per token. There is nothing
    of that kind to drop here: the prompt sets a motion's length, which all samples of a group share, so the policy
    cannot choose it. (A term's log-ratio is divided by the root of its number of values, see `Objective`.)

    Advantages keep the units of the reward, `std_floor` has no effect; other arguments as `group_std`.

    Example:
        >>> group_mean(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 0])).values
        tensor([-2., -1.,  3.])
    """
    return _advantages(scores, groups, valid, "mean", "none", std_floor, clip)


ADVANTAGES: dict[str, Callable[..., Advantages]] = {
    "group-std": group_std,
    "global-std": global_std,
    "leave-one-out": leave_one_out,
    "dr-grpo": group_mean,
}
"""By the name a user types; all take ``(scores, groups, *, valid, std_floor, clip)``."""


def _advantages(
    scores: Tensor,
    groups: Tensor,
    valid: Tensor | None,
    baseline: Literal["mean", "leave_one_out"],
    scale: Literal["group", "batch", "none"],
    std_floor: float,
    clip: float | None,
) -> Advantages:
    fits = scores.ndim in (1, 2) and groups.shape == scores.shape[:1]
    if not fits or (valid is not None and valid.shape != scores.shape):
        raise MotionkitError(
            f"scores {tuple(scores.shape)}, groups {tuple(groups.shape)}"
            + (f" and valid {tuple(valid.shape)}" if valid is not None else "")
            + " do not fit together.",
            why="advantages need scores [N] or [N, K], groups [N] and valid like scores.",
            code=1,
        )
    # wide [N, K]. Double costs nothing for a few hundred rewards, and r + b gives the same advantages as r.
    wide = scores.detach().to(torch.float32 if scores.device.type == "mps" else torch.float64)
    wide = wide[:, None] if scores.ndim == 1 else wide
    usable = torch.isfinite(wide)
    if valid is not None:
        usable = usable & valid.view(usable.shape)
    wide = torch.where(usable, wide, 0.0)

    # member [P, N], one row per group: count and mean [P, K] are matrix products, summed in a fixed order.
    ids, inverse = torch.unique(groups, return_inverse=True)
    member = (torch.arange(len(ids), device=groups.device)[:, None] == inverse).to(wide.dtype)
    count = member @ usable.to(wide.dtype)
    mean = (member @ wide) / count.clamp(min=1)
    centred = torch.where(usable, wide - mean[inverse], 0.0)

    # inside [P, N, K]; highest and lowest [P, K]. A group is flat if its scores differ by rounding only.
    inside = member[:, :, None].bool() & usable
    highest = torch.where(inside, wide, -torch.inf).amax(1)
    lowest = torch.where(inside, wide, torch.inf).amin(1)
    flat = (count < 2) | (highest - lowest <= _FLAT * torch.maximum(highest.abs(), lowest.abs()))
    live = usable & ~flat[inverse]

    if baseline == "leave_one_out":
        # x - mean of the others = (x - mean) n / (n - 1)
        centred = centred * (count / (count - 1).clamp(min=1))[inverse]
    if scale != "none":
        if scale == "group":
            deviation = wide - mean[inverse]
            variance = (member @ torch.where(usable, deviation.square(), 0)) / (count - 1).clamp(min=1)
            variance = variance[inverse]
        else:
            total = usable.sum()
            overall = wide.sum() / total.clamp(min=1)
            variance = torch.where(usable, (wide - overall).square(), 0).sum() / (total - 1).clamp(min=1)
        divisor = (variance + std_floor**2).sqrt()
        centred = centred / torch.where(divisor > 0, divisor, 1.0)
    if clip is not None:
        centred = centred.clamp(-clip, clip)
    values = torch.where(live, centred, 0.0).to(torch.float32).view(scores.shape)
    return Advantages(values, (flat & (count > 0)).sum(), (count > 0).sum())


def shuffled(values: Tensor, seed: int, step: int, *, valid: Tensor | None = None) -> Tensor:
    """Permute advantages over the samples of a batch: the negative control, with the same noise and no information.

    Rows move whole, and only between samples with the same valid columns, so that nothing falls on an absent segment.

    Args:
        values: ``[N]`` or ``[N, K]``.
        seed: Run seed.
        step: Training step; the permutation is a function of both.
        valid: ``[N, K]`` bool.
    """
    rows = torch.arange(len(values), device=values.device)
    order = torch.argsort(noise_key(seed, step, _SHUFFLE, torch.zeros_like(rows), rows))
    if valid is None or valid.ndim == 1:
        return values[order]
    kind = torch.unique(valid, dim=0, return_inverse=True)[1]
    # Both lists run through the kinds in the same order, so position i of one has the kind of position i of the other.
    taken_from = order[torch.argsort(kind[order], stable=True)]
    out = torch.empty_like(values)
    out[torch.argsort(kind, stable=True)] = values[taken_from]
    return out


def mix_credit(segments: Tensor, total: Tensor, share: float) -> Tensor:
    """Blend a segment's own advantage with the whole motion's.

    Args:
        segments: ``[N, K]`` advantages of the segments.
        total: ``[N]`` advantages of the whole motions.
        share: Weight of the total, 0 (the segment's own advantage) to 1 (the whole motion's).

    Returns:
        ``[N, K]`` ``share * total + (1 - share) * segments``.

    Example:
        >>> mix_credit(torch.tensor([[1.0, -1.0]]), torch.tensor([0.5]), 0.5).tolist()
        [[0.75, -0.25]]
    """
    if not 0.0 <= share <= 1.0:
        raise MotionkitError(f"the share of the total in segment credit must be in 0..1, got {share}.")
    return share * total[:, None] + (1.0 - share) * segments
