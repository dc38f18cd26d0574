"""Credit: which advantage acts on which frames."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.evaluation import Samples, segment_bounds
from motionkit.rewards.mix import Scored
from motionkit.rl import ADVANTAGES, mix_credit, segment_frames, shuffled
from motionkit.trainers._world import World
from motionkit.trainers.grpo._whole import whole_batch
from motionkit.trainers.grpo.algorithms.options import CreditObjective


@dataclass(frozen=True, eq=False)
class Credit:
    """Advantages as the objective takes them.

    Attributes:
        values: ``[N]``, or ``[N, K]`` with `bounds`.
        bounds: ``[N, K, 2]`` frame ranges when credit is given by segment.
        metrics: Mean and spread of the advantages, and the share of groups (per segment) whose scores do not differ.
    """

    values: Tensor
    bounds: Tensor | None
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
    whole = estimate(scored.total, groups, valid=scored.finite, **options)
    if settings.credit == "sample":
        values, valid, bounds, counted = whole.values, None, None, whole
    else:
        valid = scored.valid & scored.finite[:, None]
        counted = estimate(scored.segments, groups, valid=valid, **options)
        values, bounds = counted.values, segment_bounds(batch.prompts, batch.lengths.device)
        if settings.credit_share > 0:
            values = torch.where(valid, mix_credit(values, whole.values, settings.credit_share), 0.0)
    if shuffle_seed is not None:
        values = shuffled(values, shuffle_seed, number, valid=valid)
    metrics = {
        "advantage/mean": float(values.mean()),
        "advantage/std": float(values.std()),
        "group/zero_variance": float(counted.zero_variance) / max(1, int(counted.groups)),
    }
    own = values[world.rank * count : (world.rank + 1) * count]
    values = own if own.ndim == 1 else own[:, :columns]
    return Credit(values, bounds, metrics)


def frame_weights(values: Tensor, bounds: Tensor | None, mask: Tensor) -> Tensor:
    """Spread one value per sample or segment over its frames.

    Args:
        values: ``[N]``, or ``[N, K]`` with `bounds`.
        bounds: ``[N, K, 2]`` int64 frame ranges of the segments, or None.
        mask: ``[N, T]`` bool, True = valid.

    Returns:
        ``[N, T]``; 0 at padding and on frames of no segment.
    """
    if bounds is None:
        return values[:, None] * mask
    # [N, K, T]: which frames a segment owns.
    owned = segment_frames(bounds, mask.shape[1]) & mask[:, None]
    return torch.einsum("nk,nkt->nt", values, owned.to(values.dtype))
