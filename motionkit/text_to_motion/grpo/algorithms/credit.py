"""Credit: which advantage acts on which frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from motionkit.rl import ADVANTAGES, Advantages, leave_one_out, mix_credit, segment_bounds, segment_frames, shuffled
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.options import CreditObjective
from motionkit.text_to_motion.rewards.mix import Scored
from motionkit.training.world import World


def whole_batch(
    scored: Scored,  # scores of this process's N samples
    groups: Tensor,  # [N] group of each, counted from 0 in every process
    world: World,  # the processes; each has N samples and the same number of groups
) -> tuple[Scored, Tensor]:
    """Return the scores of all ``size * N`` samples, rank by rank, and their groups, with different ids per process."""
    if world.size == 1:
        return scored, groups
    # Prompts of one process may have fewer segments than another's: tables are padded to the most columns.
    columns = int(world.gather(torch.tensor([scored.valid.shape[1]], device=groups.device)).max())
    missing = (0, columns - scored.valid.shape[1])
    per_process = int(groups.max()) + 1
    gathered = Scored(
        total=world.gather(scored.total),
        segments=world.gather(pad(scored.segments, missing)),
        valid=world.gather(pad(scored.valid, missing)),
        finite=world.gather(scored.finite),
        metrics=scored.metrics,
    )
    return gathered, world.gather(groups + world.rank * per_process)


def dead_everywhere(names: Sequence[str], scored: Scored, world: World) -> list[str]:
    """Return the rewards that gave no sample of any process a finite score."""
    dead = torch.tensor([name in scored.dead for name in names], dtype=torch.float64, device=scored.total.device)
    return [name for name, count in zip(names, world.sum(dead).tolist(), strict=True) if count == world.size]


@dataclass(frozen=True, eq=False)
class Credit:
    """Advantages for an objective."""

    values: Tensor  # [N], or [N, K] with `bounds`
    bounds: Tensor | None  # [N, K, 2] frame ranges when credit is given by segment
    # Mean and spread of the advantages, and the share of groups (per segment) whose scores do not differ.
    metrics: dict[str, float]


def assign_credit(
    scored: Scored,
    batch: Samples,
    settings: CreditObjective,
    number: int,
    *,
    world: World,
    shuffle_seed: int | None = None,
) -> Credit:
    """Turn the scores of a batch into advantages, one per sample or one per segment.

    Args:
        scored: Scores of N samples.
        batch: The samples, for their groups and segments.
        settings: Which baseline, and how credit is given.
        number: Number of the update; with `shuffle_seed` it decides the permutation.
        world: The processes that share the batch: baselines and scales are those of all its samples.
        shuffle_seed: Permute the advantages over the batch (negative control); None leaves them in place.
    """
    estimate = ADVANTAGES[settings.advantage]
    options = {"std_floor": settings.std_floor, "clip": settings.advantage_clip}
    count, columns = scored.valid.shape
    scored, groups = whole_batch(scored, batch.groups, world)
    totals = estimate(scored.total, groups, valid=scored.finite, **options)
    if settings.credit == "sample":
        values, valid, bounds, counted = totals.values, None, None, totals
    else:
        valid = scored.valid & scored.finite[:, None]
        counted = estimate(scored.segments, groups, valid=valid, **options)
        values = counted.values
        bounds = segment_bounds([prompt.bounds for prompt in batch.prompts], batch.lengths.device)
        if settings.credit_share > 0:
            values = torch.where(valid, mix_credit(values, totals.values, settings.credit_share), 0.0)
    if shuffle_seed is not None:
        values = shuffled(values, shuffle_seed, number, valid=valid)
    mine = values[world.rank * count : (world.rank + 1) * count]
    return Credit(mine if mine.ndim == 1 else mine[:, :columns], bounds, _measured(values, counted))


def reward_credit(
    scored: Scored, batch: Samples, number: int, *, antithetic: bool, world: World, shuffle_seed: int | None = None
) -> Credit:
    """Return advantages in units of the reward, one per sample, neither divided by their spread nor clipped.

    Their policy gradient is an unbiased gradient of the expected reward, so that it can be added to another one.

    Args:
        scored: Scores of N samples.
        batch: The samples, for their groups.
        number: Number of the update; with `shuffle_seed` it decides the permutation.
        antithetic: Samples 2i and 2i+1 of a group have opposite noise.
        world: The processes that share the batch.
        shuffle_seed: Permute the advantages over the batch (negative control); None leaves them in place.
    """
    count, size = len(scored.total), int((batch.groups == 0).sum())
    scored, groups = whole_batch(scored, batch.groups, world)
    estimate = leave_one_out(scored.total, groups, valid=scored.finite, clip=None, scale="none")
    values = estimate.values
    if antithetic:
        # The mean of the other G - 1 samples is independent of a sample's noise eps except for its mirror image, whose
        # share 1 / (G - 1) adds E[r(-eps) eps] = -E[r(eps) eps]: the estimate is G / (G - 1) times too large.
        number_in_group = torch.arange(len(values), device=values.device) % size
        values = torch.where((number_in_group ^ 1) < size, values * (size - 1) / size, values)
    if shuffle_seed is not None:
        values = shuffled(values, shuffle_seed, number)
    return Credit(values[world.rank * count : (world.rank + 1) * count], None, _measured(values, estimate))


def _measured(values: Tensor, counted: Advantages) -> dict[str, float]:
    return {
        "advantage/mean": float(values.mean()),
        "advantage/std": float(values.std()),
        "group/zero_variance": float(counted.zero_variance) / max(1, int(counted.groups)),
    }


def frame_weights(
    values: Tensor,  # [N], or [N, K] with `bounds`
    bounds: Tensor | None,  # [N, K, 2] int64 frame ranges of the segments, or None
    mask: Tensor,  # [N, T] bool, True = valid
) -> Tensor:
    """Spread one value per sample or segment over its frames, ``[N, T]``; 0 at padding and outside segments."""
    if bounds is None:
        return values[:, None] * mask
    # [N, K, T]: the frames of each segment.
    owned = segment_frames(bounds, mask.shape[1]) & mask[:, None]
    return torch.einsum("nk,nkt->nt", values, owned.to(values.dtype))
