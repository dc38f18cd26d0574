"""A term that keeps the predictions as smooth over time as the reference's."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.policies.base import DiffusionPolicy
from motionkit.policies.sampling import Samples
from motionkit.rl import Trajectory, Visited, valid_dims
from motionkit.trainers._world import World
from motionkit.trainers.grpo._reference import Reference

_EVERY = 4


def add_hold(
    policy: DiffusionPolicy,
    reference: Reference,
    batch: Samples,
    trajectory: Trajectory,
    rest: Visited,
    weight: float,
    number: int,
    *,
    guidance: float,
    micro_batch: int,
    world: World,
) -> float:
    """Add the gradient of ``weight * roughness(x0 - x0_reference)`` at all visited states.

    The noise of the policy's gradient makes motions jitter long before it changes what they show. It does so at the
    deterministic steps too, which neither the reward nor the KL sees. The policy may move away from the reference,
    but only smoothly over time. A quarter of the (sample, step) pairs per update, another quarter each time, is enough.

    Args:
        policy: The policy that is trained.
        reference: What it is compared to.
        batch: The samples.
        trajectory: The stochastic states they passed through.
        rest: The deterministic ones.
        weight: Weight of the roughness of the difference.
        number: Number of the update; chooses the quarter.
        guidance: Guidance scale of the rollout.
        micro_batch: Pairs per forward and backward pass.
        world: The processes that share the batch.

    Returns:
        The loss; those of all processes add up.
    """
    # [S, N, T, D]: the scored steps first, then the deterministic ones.
    states = torch.cat([trajectory.x_t, rest.x_t])
    timesteps = torch.cat([trajectory.timesteps, rest.timesteps])
    samples = len(batch.lengths)
    other = reference.condition(batch.prompts, batch.condition)
    # Pair p is step p // N of sample p % N, N counted over all processes, so that the quarter is theirs together.
    everyone = samples * world.size
    pairs = torch.arange(number % _EVERY, len(timesteps) * everyone, _EVERY, device=batch.lengths.device)
    total = len(pairs)
    pairs = pairs[torch.div(pairs % everyone, samples, rounding_mode="floor") == world.rank]
    loss = 0.0
    for chunk in pairs.split(micro_batch) if len(pairs) else ():  # a process may have none of a quarter
        step, sample = torch.div(chunk, everyone, rounding_mode="floor"), chunk % samples
        x, timestep, lengths = states[step, sample], timesteps[step], batch.lengths[sample]
        x0 = policy.predict(x, timestep, batch.condition.select(sample), lengths, guidance=guidance)
        aim = reference.predict(x, timestep, other.select(sample), lengths, guidance=guidance)
        part = weight * roughness(x0 - aim, batch.mask[sample]).sum() / total
        part.backward()
        loss += float(part.detach())
    return loss


def roughness(moved: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared second difference over time of ``[M, T, D]``, ``[M]``; padding does not count."""
    moved = moved.masked_fill(~mask[..., None], 0.0)
    # A second difference is valid where all three of its frames are.
    valid = mask[:, 2:] & mask[:, 1:-1] & mask[:, :-2]
    bend = (moved[:, 2:] - 2 * moved[:, 1:-1] + moved[:, :-2]).square().sum(-1).masked_fill(~valid, 0.0)
    return bend.sum(1) / valid_dims(valid, moved.shape[-1])
