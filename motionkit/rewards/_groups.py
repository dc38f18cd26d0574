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
    usable = usable & scores.applying
    total = group_std(scores.total, groups, valid=usable, clip=None).values
    if scores.segments is None:
        return RewardScores(total)
    own = scores.segments[:, : valid.shape[1]]
    return RewardScores(total, group_std(own, groups, valid=valid & usable[:, None], clip=None).values)


def correlations(totals: dict[str, tuple[Tensor, Tensor]], groups: Tensor) -> dict[tuple[str, str], float]:
    """Return Pearson's correlation of each pair of rewards within groups, which is where they are compared.

    Every reward is centred within its group; groups count as they are, one with a wide spread more than a narrow one.

    Args:
        totals: By the name of the reward, ``[N]`` scores and ``[N]`` bool, the samples that it could score.
        groups: ``[N]`` int64 group ids.

    Returns:
        By the names of a pair, in the order of `totals`; NaN where one of the two does not differ within any group.

    Example:
        >>> every = torch.ones(4, dtype=torch.bool)
        >>> two = {"a": torch.tensor([0.0, 1.0, 5.0, 6.0]), "b": torch.tensor([1.0, 0.0, 2.0, 1.0])}
        >>> correlations({name: (total, every) for name, total in two.items()}, torch.tensor([0, 0, 1, 1]))
        {('a', 'b'): -1.0}
    """
    found = {}
    for (first, (a, has_a)), (second, (b, has_b)) in combinations(totals.items(), 2):
        both = has_a & has_b
        x, y = (_centred(total, groups, both) for total in (a, b))
        scale = float(x.norm() * y.norm())
        found[first, second] = float(x @ y) / scale if scale > 0 else float("nan")
    return found


def _centred(total: Tensor, groups: Tensor, usable: Tensor) -> Tensor:
    """Return scores minus the mean of their group, 0 where not usable."""
    member = ((torch.unique(groups)[:, None] == groups) & usable).double()  # [P, N]
    plain = torch.where(usable, total.detach(), total.new_zeros(())).double()
    mean = (member @ plain) / member.sum(1).clamp(min=1)
    return torch.where(usable, plain - mean @ member, plain.new_zeros(()))
