"""The scores of all processes' samples, for what depends on the whole batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from motionkit.rewards.mix import Scored
from motionkit.trainers._world import World


def whole_batch(scored: Scored, groups: Tensor, world: World) -> tuple[Scored, Tensor]:
    """Gather the scores of every process.

    Args:
        scored: Scores of this process's N samples.
        groups: ``[N]`` group of each, counted from 0 in every process.
        world: The processes; each has N samples and the same number of groups.

    Returns:
        Scores of all ``size * N`` samples, rank by rank, and their groups, which no two processes share.
    """
    if world.size == 1:
        return scored, groups
    # Prompts of one process may have fewer segments than another's: every table gets as many columns as the widest.
    columns = int(world.gather(torch.tensor([scored.valid.shape[1]], device=groups.device)).max())
    missing = (0, columns - scored.valid.shape[1])
    per_process = int(groups.max()) + 1
    whole = Scored(
        total=world.gather(scored.total),
        segments=world.gather(pad(scored.segments, missing)),
        valid=world.gather(pad(scored.valid, missing)),
        finite=world.gather(scored.finite),
        metrics=scored.metrics,
    )
    return whole, world.gather(groups + world.rank * per_process)


def dead_everywhere(names: Sequence[str], scored: Scored, world: World) -> list[str]:
    """Return the rewards that gave no sample of any process a finite score.

    Args:
        names: Names of the rewards, the same in every process.
        scored: Scores of this process's samples.
        world: The processes.
    """
    dead = torch.tensor([name in scored.dead for name in names], dtype=torch.float64, device=scored.total.device)
    return [name for name, count in zip(names, world.sum(dead).tolist(), strict=True) if count == world.size]
