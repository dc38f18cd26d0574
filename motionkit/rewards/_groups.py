"""Rewards within their groups: brought to one scale, and compared with each other."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from motionkit.rewards.base import RewardScores
from motionkit.rl import group_std


def standardised(scores: RewardScores, groups: Tensor, valid: Tensor, usable: Tensor) -> RewardScores:
    """Centre a reward within each group and divide by its standard deviation there.

    The total by the total's own mean and deviation, and each column of segments by its own: so the total is no longer
    the mean of the segments. A group (of a segment) whose scores do not differ becomes 0.

    Source: GDPO (Liu et al. 2026, arXiv:2601.05242), the step before the weighted sum.

    Args:
        scores: Scores of N samples.
        groups: ``[N]`` int64 group ids.
        valid: ``[N, K]`` bool, which segments a sample has.
        usable: ``[N]`` bool, False leaves a sample out of mean and deviation; it becomes 0.
    """
    total = group_std(scores.total, groups, valid=usable, clip=None).values
    if scores.segments is None:
        return RewardScores(total)
    own = scores.segments[:, : valid.shape[1]]
    return RewardScores(total, group_std(own, groups, valid=valid & usable[:, None], clip=None).values)


def correlations(totals: dict[str, Tensor], groups: Tensor, usable: Tensor) -> dict[tuple[str, str], float]:
    """Return Pearson's correlation of each pair of rewards within groups, which is where they are compared.

    Every reward is centred within its group; groups count as they are, one with a wide spread more than a narrow one.

    Args:
        totals: ``[N]`` scores by the name of the reward.
        groups: ``[N]`` int64 group ids.
        usable: ``[N]`` bool, the samples that all rewards could score.

    Returns:
        By the names of a pair, in the order of `totals`; NaN where one of the two does not differ within any group.

    Example:
        >>> two = {"a": torch.tensor([0.0, 1.0, 5.0, 6.0]), "b": torch.tensor([1.0, 0.0, 2.0, 1.0])}
        >>> correlations(two, torch.tensor([0, 0, 1, 1]), torch.ones(4, dtype=torch.bool))
        {('a', 'b'): -1.0}
    """
    member = (torch.unique(groups)[:, None] == groups) & usable  # [P, N]
    counts = member.sum(1).clamp(min=1)
    centred = {}
    for name, total in totals.items():
        plain = torch.where(usable, total.detach(), 0.0).double()
        mean = (member.double() @ plain) / counts
        centred[name] = torch.where(usable, plain - (member.double() * mean[:, None]).sum(0), 0.0)
    found = {}
    for (first, a), (second, b) in combinations(centred.items(), 2):
        scale = float(a.norm() * b.norm())
        found[first, second] = float(a @ b) / scale if scale > 0 else float("nan")
    return found
