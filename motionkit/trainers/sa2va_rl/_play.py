"""The roll-outs of a step and their losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.evaluation.regions._task import Task
from motionkit.rl import Surrogate, group_std, shuffled, weighted_mean
from motionkit.trainers._world import OneProcess, World, mean_over, rows_of, sum_over
from motionkit.trainers.sa2va_rl._rewards import LoopRewards
from motionkit.trainers.sa2va_rl._settings import Sa2vaObjectiveSettings
from motionkit.trainers.sa2va_rl.loops.base import Loop, Played, Turn


@dataclass(frozen=True)
class Scored:
    """A roll-out with what it earned.

    Attributes:
        played: The roll-out.
        rewards: ``[N]``.
        paid: ``[N]`` the same, for a loss that is weighted by rewards; as a negative control they change their samples.
        advantages: ``[N]``.
        alive: ``[N]`` bool: samples of groups with something to learn from.
        metrics: What is logged of it.
    """

    played: Played
    rewards: Tensor
    paid: Tensor
    advantages: Tensor
    alive: Tensor
    metrics: dict[str, float]


def roll_out(
    name: str, loop: Loop, rewards: LoopRewards, task: Task, turn: Turn, *, group: int, floor: float,
    shuffle: tuple[int, int] | None = None, world: World | None = None,
) -> Scored:  # fmt: skip
    """Play a loop and compare the samples of each region with one another.

    Args:
        name: Of the loop, for metrics.
        loop: The loop.
        rewards: What it is paid for.
        task: Regions of this process, each `group` times.
        turn: Partner, start, noise.
        group: Samples of a region.
        floor: See `motionkit.rl.group_std`.
        shuffle: Seed and step: as a negative control, advantages change their samples.
        world: The processes that share the step; metrics are those of all samples, or means of the processes' own.
    """
    world = world or OneProcess()
    played = loop.play(task, turn)
    scores = rewards(played.made)
    size = len(task.captions) // group
    groups = torch.arange(size, device=scores.total.device).repeat_interleave(group)
    found = group_std(scores.total, groups, valid=scores.finite, std_floor=floor)
    advantages = found.values
    alive = (advantages.view(size, group) != 0).any(1).repeat_interleave(group)
    paid = scores.total
    if shuffle is not None:
        mine = rows_of(advantages, world)[1]
        advantages, paid = (shuffled(world.gather(one), *shuffle)[mine] for one in (advantages, paid))
    own = {f"{name}/{key}": float(value) for key, value in played.metrics.items()} | {
        f"{name}/reward_mean": float(scores.total.mean()),
        f"{name}/reward_std": float(scores.total.view(size, group).std(1).mean()),
        f"{name}/zero_std_frac": float(found.zero_variance) / size,
    }
    return Scored(played, scores.total, paid, advantages, alive, {**scores.metrics, **mean_over(own, world)})


def loss_of(
    name: str, scored: Scored, objective: Sa2vaObjectiveSettings, world: World | None = None
) -> tuple[Tensor, dict[str, float]]:
    """Return this process's share of the loss of a loop under the present weights, and what is logged of the whole."""
    world = world or OneProcess()
    if scored.played.direct is not None:
        loss = scored.played.direct(scored.rewards).mean() / world.size
        return loss, sum_over({f"{name}/loss": float(loss.detach())}, world)
    surrogate = Surrogate(objective.clip_range, objective.clip_high, on_policy=objective.inner_epochs == 1)
    terms = scored.played.terms()
    weight, count = normalised(terms.mask & scored.alive[:, None], objective.normalize, world)
    policy = surrogate.loss(terms.log_ratio, scored.advantages, weight, total=count)
    kl = weighted_mean(terms.kl, weight, count)
    loss = policy + objective.kl_coef * kl
    if scored.played.beside is not None:
        loss = loss + scored.played.beside(scored.paid).mean() / world.size
    if terms.entropy is not None and objective.entropy:
        loss = loss - objective.entropy * weighted_mean(terms.entropy, weight, count)
    measured = surrogate.measure(terms.log_ratio.detach(), scored.advantages, weight)
    told = {
        f"{name}/loss": float(loss.detach()),
        f"{name}/policy_loss": float(policy.detach()),
        f"{name}/kl_div": float(kl.detach()),
        f"{name}/clip_frac": float(measured["clip_fraction"]) / (len(scored.advantages) * world.size),
    }
    return loss, sum_over(told, world)


def normalised(mask: Tensor, how: str, world: World | None = None) -> tuple[Tensor, int]:
    """Return the weight of each decision ``[N, S]`` and what the mean over all processes' samples divides by."""
    world = world or OneProcess()
    weight, samples = mask.float(), len(mask) * world.size
    if how == "token":
        return weight, max(1, int(world.sum(mask.sum())))
    if how == "sequence":
        return weight / mask.sum(1, keepdim=True).clamp(min=1), samples
    return weight / int(world.gather(torch.tensor([mask.shape[1]])).max()), samples


def means_of(scored: Mapping[str, Scored]) -> dict[str, float]:
    """Return the mean reward of each loop."""
    return {name: one.metrics[f"{name}/reward_mean"] for name, one in scored.items()}
