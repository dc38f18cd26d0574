"""The roll-outs of a step and their losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.config import Chosen
from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.plugins import reads_of
from motionkit.rl import Surrogate, group_std, shuffled, weighted_mean
from motionkit.training.world import OneProcess, World, mean_over, of_main, rows_of, share_of, sum_over
from motionkit_regions.datasets.base import RegionDataset, names_absent
from motionkit_regions.evaluation.known import look_up
from motionkit_regions.evaluation.measure import Task, Weights, open_task
from motionkit_regions.policy import RegionPolicy
from motionkit_regions.pretrain import regions_of_part
from motionkit_regions.scores import region_iou
from motionkit_regions.self_play.loop import Loop, Made, Played, Turn
from motionkit_regions.self_play.settings import CurriculumSettings, Sa2vaObjectiveSettings

_CAPTIONED = 1  # marks the order of the regions with captions

ENDLESS = 1 << 20
"""Largest number of regions that are shuffled for each pass."""


class RegionOrder:
    """Opens the regions of each step.

    Without a curriculum every region is used once before any comes again. With one, a step draws several times the
    regions that it needs, ranks them by ease, and takes its regions from the easiest part; that part grows to all of
    them.
    """

    def __init__(
        self,
        data: RegionDataset,
        policy: RegionPolicy,  # sees the images
        batch: int,  # regions of a step
        seed: int,  # seed of the run
        curriculum: CurriculumSettings,  # the measure of ease, and how long easy regions come first
        steps: int,  # steps of the run
        start: Weights,  # weights of the policy as it started, by which ambiguity is measured
        world: World | None = None,  # the processes that share a step
        # Regions whose captions may be read, and then those of a step come without captions; None: all
        part: NDArray[np.int64] | None = None,
    ) -> None:
        self._data, self._policy, self._batch, self._seed = data, policy, batch, seed
        self._curriculum, self._start, self._world = curriculum, start, world or OneProcess()
        self._part = part
        self._share = share_of(batch, self._world, what="regions", flag="--batch-size")
        self._until = curriculum.until * steps if curriculum.by != "none" else 0.0
        self.per_epoch = max(1, data.count("train") // batch)

    def at(self, step: int) -> Task:
        """Return this process's regions of a step, counted from 1; without captions if only a part has them."""
        task = self.open("train", self._index(step))
        return task if self._part is None else replace(task, captions=("",) * len(task))

    def captioned(self, step: int, absent: float = 0.0) -> Task:
        """Return this process's regions with captions for a step: its own, or those of the captioned part in turn.

        A share `absent` of them gets the caption of an absent object and an empty mask.
        """
        index = self._index(step)
        if self._part is not None:
            index = regions_of_part(self._part, self._batch, step, self._seed, _CAPTIONED)[self._share]
        task = self.open("train", index)
        first = np.arange(self._batch)[self._share] < round(absent * self._batch)  # whichever process has them
        if not first.any() or not names_absent(self._data):
            return task
        masks, texts = task.masks.clone(), list(task.captions)
        for place, named in enumerate(look_up(self._data, "train", index[first]).absent):
            if named:  # the image does not show it
                masks[place], texts[place] = False, named
        return replace(task, masks=masks, captions=tuple(texts))

    def _index(self, step: int) -> NDArray[np.int64]:
        if step - 1 >= self._until:
            return self._in_turn(step)[self._share]
        draw = np.random.default_rng((self._seed, step))
        pool = self._curriculum.pool
        count = self._data.count("train")
        drawn = draw.choice(count, min(pool * self._batch, count), replace=False)
        ease = self._areas(drawn) if self._curriculum.by == "area" else self._clarity(drawn)
        share = (step - 1) / self._until
        kept = math.ceil(self._batch * (1 + (pool - 1) * share))
        easiest = drawn[np.argsort(-ease, kind="stable")][: max(self._batch, kept)]
        # Rounding may differ between processes: the main one decides.
        chosen = np.array(of_main(draw.permutation(easiest)[: self._batch].tolist(), self._world), np.int64)
        return chosen[self._share]

    def open(self, split: Split, index: NDArray[np.int64]) -> Task:
        """Open regions by their numbers."""
        return open_task(self._policy, self._data.regions(split, index))

    def _in_turn(self, step: int) -> NDArray[np.int64]:
        size, count = self._batch, self._data.count("train")
        epoch, place = divmod((step - 1) * size, self.per_epoch * size)
        if count > ENDLESS:
            return np.arange(place, place + size)
        order = np.random.default_rng((self._seed, epoch)).permutation(count)
        return order[place : place + size]

    def _areas(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the share of its image that each region covers: large ones are easy."""
        if (areas := self._data.areas("train")) is not None:
            return areas[index].astype(np.float64)
        return np.array([mask.mean() for mask in self._data.regions("train", index).masks])

    @torch.no_grad()
    def _clarity(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the IoU of the mask that the policy as it started draws of each caption: high for a clear caption."""
        task = self.open("train", index)
        with self._start():
            drawn = self._policy.draw(task.seen, self._policy.prompts(task.seen, task.captions)) > 0
        return np.asarray(region_iou(drawn, task.masks).double().cpu().numpy())


@dataclass(frozen=True)
class LoopScores:
    """Rewards of N samples."""

    total: Tensor  # [N] weighted sum; 0 if `finite` is False
    finite: Tensor  # [N] bool, False where a reward could not be computed
    parts: Mapping[str, Tensor]  # [N] of each reward by its name, before its weight; not finite where it failed
    metrics: Mapping[str, float]  # mean of each reward by its name, over the samples of all processes


class LoopRewards:
    """Several rewards as one."""

    def __init__(
        self, chosen: Sequence[Chosen], loop: str, device: torch.device, world: World | None = None,
        data: RegionDataset | None = None,
    ) -> None:  # fmt: skip
        self.loop = loop
        self._world = world or OneProcess()
        self.names = tuple(choice.name for choice in chosen)
        self.rewards: dict[str, Reward] = {}  # the rewards by name
        self._terms: list[tuple[Reward, float, str]] = []
        # Whether one compares with the data's captions: a reward of texts, unless it has ``reads_captions = False``
        self.reads_captions = False
        # Rewards of the task: they compare with the region or its caption, and do not look at a text alone
        self.of_task: tuple[str, ...] = ()
        for choice in chosen:
            reads = reads_of(choice.kind, choice.component)
            if reads not in ("mask", "text"):
                raise MotionkitError(
                    f"the reward {choice.label} cannot be used in {loop}.",
                    why=f"it reads {reads}; a loop makes masks and texts.",
                    fix="motionkit plugins list rewards shows what each reads.",
                )  # fmt: skip
            reward: Reward = choice.build(dataset=data, device=device)
            self.rewards[choice.name], compares = reward, reward.reads_captions
            self.reads_captions |= reads == "text" and compares
            self.of_task += (choice.name,) if compares and choice.weight else ()
            self._terms.append((self.rewards[choice.name], choice.weight, reads))

    def __call__(self, made: Made) -> LoopScores:
        """Score this process's N samples; some score of some process must be finite."""
        parts = []
        metrics = {}
        for reward, weight, reads in self._terms:
            samples = made.masks if reads == "mask" else made.texts
            total = reward.score(samples, ()).total.detach().float()
            good = total.isfinite()
            sums = self._world.sum(torch.stack([total[good].double().sum(), good.sum().double()]))
            if not sums[1]:
                raise MotionkitError(
                    f"the reward {reward.name} gave no finite score in {self.loop}.", code=1,
                    why="a reward of nothing but failures would be taken for a reward of 0.",
                )  # fmt: skip
            metrics[f"{self.loop}/reward/{reward.name}"] = float(sums[0] / sums[1])
            parts.append((total, weight))
        finite = torch.stack([total.isfinite() for total, _ in parts]).all(0)
        summed = torch.stack([torch.where(finite, total, 0.0) * weight for total, weight in parts]).sum(0)
        named = dict(zip(self.names, (total for total, _ in parts), strict=True))
        return LoopScores(summed, finite, named, metrics)


@dataclass(frozen=True)
class Scored:
    """A roll-out with its rewards."""

    played: Played  # the roll-out
    rewards: Tensor  # [N]
    scores: LoopScores  # their parts, and which could be computed
    paid: Tensor  # [N] the same for a loss that is weighted by rewards, shuffled as a negative control
    advantages: Tensor  # [N]
    alive: Tensor  # [N] bool: samples of groups with something to learn from
    metrics: dict[str, float]


def roll_out(
    name: str,  # of the loop, for metrics
    loop: Loop,
    rewards: LoopRewards,
    task: Task,  # regions of this process, each `group` times
    turn: Turn,  # partner, start, noise
    *,
    group: int,  # samples of a region
    floor: float,  # see `motionkit.rl.group_std`
    shuffle: tuple[int, int] | None = None,  # seed and step: advantages are shuffled, as a negative control
    world: World | None = None,  # the processes that share the step; metrics are over all of them
) -> Scored:
    """Play a loop and compare the samples of each region with one another."""
    world = world or OneProcess()
    played = loop.play(task, turn)
    scores = rewards(played.made)
    size = len(task.captions) // group
    groups = torch.arange(size, device=scores.total.device).repeat_interleave(group)
    compared = group_std(scores.total, groups, valid=scores.finite, std_floor=floor)
    advantages = compared.values
    alive = (advantages.view(size, group) != 0).any(1).repeat_interleave(group)
    paid = scores.total
    if shuffle is not None:
        mine = rows_of(advantages, world)[1]
        advantages, paid = (shuffled(world.gather(values), *shuffle)[mine] for values in (advantages, paid))
    means = {f"{name}/{key}": float(value) for key, value in played.metrics.items()} | {
        f"{name}/reward_mean": float(scores.total.mean()),
        f"{name}/reward_std": float(scores.total.view(size, group).std(1).mean()),
        f"{name}/zero_std_frac": float(compared.zero_variance) / size,
    }
    return Scored(played, scores.total, scores, paid, advantages, alive, {**scores.metrics, **mean_over(means, world)})


def loss_of(
    name: str, scored: Scored, objective: Sa2vaObjectiveSettings, world: World | None = None
) -> tuple[Tensor, dict[str, float]]:
    """Return this process's share of the loss of a loop under the present weights, and metrics over all processes."""
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
    metrics = {
        f"{name}/loss": float(loss.detach()),
        f"{name}/policy_loss": float(policy.detach()),
        f"{name}/kl_div": float(kl.detach()),
        f"{name}/clip_frac": float(measured["clip_fraction"]) / (len(scored.advantages) * world.size),
    }
    return loss, sum_over(metrics, world)


def normalised(mask: Tensor, how: str, world: World | None = None) -> tuple[Tensor, int]:
    """Return the weight of each decision ``[N, S]``, and the divisor of the mean over the samples of all processes."""
    world = world or OneProcess()
    weight, samples = mask.float(), len(mask) * world.size
    if how == "token":
        return weight, max(1, int(world.sum(mask.sum())))
    if how == "sequence":
        return weight / mask.sum(1, keepdim=True).clamp(min=1), samples
    return weight / int(world.gather(torch.tensor([mask.shape[1]])).max()), samples


def means_of(scored: Mapping[str, Scored]) -> dict[str, float]:
    """Return the mean reward of each loop."""
    return {name: result.metrics[f"{name}/reward_mean"] for name, result in scored.items()}
