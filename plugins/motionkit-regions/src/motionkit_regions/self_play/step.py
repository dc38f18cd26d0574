"""An update of self-play, and `Balance`, which adds up the gradients of its loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.nn import EMA
from motionkit.nn.lora import names_by_group
from motionkit.rl import RowNoise
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.steps import Kept, State
from motionkit.training.world import OneProcess, World, of_main, rows_of, sum_over
from motionkit_regions.datasets.base import RegionDataset
from motionkit_regions.evaluation.measure import Task, Weights, as_it_is
from motionkit_regions.policy import RegionPolicy
from motionkit_regions.pretrain import supervised_loss, unknown_words
from motionkit_regions.self_play.loop import Loop, Turn
from motionkit_regions.self_play.play import LoopRewards, RegionOrder, Scored, loss_of, means_of, roll_out
from motionkit_regions.self_play.settings import Sa2vaRlSettings

_SMOOTH = 0.9
_FAST, _SLOW = 0.9, 0.99
_LEAST, _MOST = 0.1, 10.0
_IDLE = 1e-3  # least progress of a loop, in reward, so that none is left out for good
_DRAWS = 256  # regions from which the spread of the policy's prompts is measured


class Balance:
    """Adds up the gradients of the losses of loops.

    gradient: each loop is scaled to the mean norm of all (factors from 0.1 to 10, averaged over about ten steps).
    progress: a loop counts by how fast its reward rises, the difference of a fast and a slow average of it.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, nn.Parameter]],  # the trained parameters
        how: Literal["none", "gradient", "progress"],  # what the factors depend on
        conflict_every: int,  # steps between reports of the cosine between gradients; 0: none
        world: World | None = None,  # the processes whose gradients add up
    ) -> None:
        self._parameters = [parameter for _, parameter in named]
        self._how, self._every, self._world = how, conflict_every, world or OneProcess()
        self._averages: dict[str, float] = {}
        self.factors: dict[str, float] = {}

    def observe(self, rewards: Mapping[str, float]) -> None:
        """Take in the mean rewards of the loops in a step."""
        if self._how != "progress":
            return
        gains = {}
        for name, reward in rewards.items():
            for speed, decay in (("fast", _FAST), ("slow", _SLOW)):
                before = self._averages.get(f"{name}/{speed}", reward)
                self._averages[f"{name}/{speed}"] = decay * before + (1 - decay) * reward
            gains[name] = max(0.0, self._averages[f"{name}/fast"] - self._averages[f"{name}/slow"]) + _IDLE
        total = sum(gains.values())
        self.factors = {name: len(gains) * gain / total for name, gain in gains.items()}

    def backward(self, losses: Mapping[str, Tensor], anchor: Tensor | None, step: int) -> dict[str, float]:
        """Add the gradients of the losses to the parameters; returns ``balance/A`` and, at times, ``grad/cos_A_B``."""
        report = self._every and step % self._every == 0
        if self._how != "gradient" and not report:
            scaled = [loss * self.factors.get(name, 1.0) for name, loss in losses.items()]
            if scaled := [*scaled, *([] if anchor is None else [anchor])]:
                torch.stack(scaled).sum().backward()
            return self._metrics()
        gradients = {name: self._gradient(loss) for name, loss in losses.items()}
        summed = {name: self._world.sum(gradient) for name, gradient in gradients.items()}
        if self._how == "gradient":
            self._follow({name: float(gradient.norm()) for name, gradient in summed.items()})
        # Gradients are flat vectors [P], one for each part of the loss.
        total = torch.stack([self.factors.get(name, 1.0) * gradient for name, gradient in gradients.items()]).sum(0)
        if anchor is not None:
            total = total + self._gradient(anchor)
        parts = total.split([parameter.numel() for parameter in self._parameters])
        for parameter, part in zip(self._parameters, parts, strict=True):
            grown = part.view_as(parameter)
            parameter.grad = grown.clone() if parameter.grad is None else parameter.grad + grown
        if not report:
            return self._metrics()
        return self._metrics() | {
            f"grad/cos_{first}_{second}": float(torch.cosine_similarity(summed[first], summed[second], dim=0))
            for first, second in combinations(summed, 2)
        }

    def _gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a loss, flat."""
        if not loss.requires_grad:
            return torch.zeros(sum(parameter.numel() for parameter in self._parameters), device=loss.device)
        gradients = torch.autograd.grad(loss, self._parameters, retain_graph=True, allow_unused=True)
        # A parameter that a loss does not reach has no gradient; zeros keep all of one length.
        pairs = zip(gradients, self._parameters, strict=True)
        return torch.cat(
            [(torch.zeros_like(tensor) if gradient is None else gradient).flatten() for gradient, tensor in pairs]
        )

    def _follow(self, norms: Mapping[str, float]) -> None:
        moving = {name: norm for name, norm in norms.items() if norm > 0}
        mean = sum(moving.values()) / max(1, len(moving))
        for name, norm in moving.items():
            factor = min(_MOST, max(_LEAST, mean / norm))
            self.factors[name] = _SMOOTH * self.factors.get(name, factor) + (1 - _SMOOTH) * factor

    def _metrics(self) -> dict[str, float]:
        return {f"balance/{name}": factor for name, factor in self.factors.items()}

    def state(self) -> State:
        """Return factors and averages."""
        return State(values={"factors": dict(self.factors), "averages": dict(self._averages)} if self.factors else {})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self.factors = dict(state.values.get("factors", {}))
        self._averages = dict(state.values.get("averages", {}))


def linear(first: float, last: float | None, step: int, steps: int) -> float:
    """Return the value at a step (counted from 1) of a line from `first` to `last`; None: constant."""
    if last is None:
        return first
    # Step 1 has `first`, the last step `last`
    return first + (last - first) * (step - 1) / max(1, steps - 1)


def trainable(policy: RegionPolicy) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return the parameters to train by the name of their part, and freeze all others."""
    parameters = dict(policy.network.named_parameters())
    groups = names_by_group(policy.groups, parameters)
    chosen = {name for names in groups.values() for name in names}
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in chosen)
    by_group = {group: [(name, parameters[name]) for name in names] for group, names in groups.items()}
    if empty := [group for group, named in by_group.items() if not named]:
        raise MotionkitError(f"the policy has no parameters in its {empty[0]}.", why="its `groups` name none.")
    return by_group


def weights_at(settings: Sa2vaRlSettings, step: int) -> dict[str, float]:
    """Return the weight of each loop at a step, counted from 1."""
    loops, steps = settings.loops, settings.run.num_steps
    return {
        "loop1": linear(loops.mask_to_caption, loops.mask_to_caption_end, step, steps),
        "loop2": linear(loops.caption_to_mask, loops.caption_to_mask_end, step, steps),
        "loop3": loops.third,
    }


def reads_captions(loop: Loop, rewards: LoopRewards) -> bool:
    """Return whether a loop or one of its rewards reads the captions of its regions."""
    return loop.reads_captions or rewards.reads_captions


class SelfPlay:
    """A region policy, its loops, its partner and its learner; `step` does one update.

    Args:
        settings: Sizes, weights and schedules; `run.num_steps` is that of the whole run.
        policy: What is trained, in place: the parts that its ``groups`` name.
        data: The training regions.
        loops: By the names ``loop1``, ``loop2`` and ``loop3``.
        rewards: What each of them is paid for.
        world: The processes that share the regions of a step.
    """

    def __init__(
        self,
        settings: Sa2vaRlSettings,
        policy: RegionPolicy,
        data: RegionDataset,
        loops: Mapping[str, Loop],
        rewards: Mapping[str, LoopRewards],
        *,
        world: World | None = None,
    ) -> None:
        self.settings, self.policy, self.data, self.world = settings, policy, data, world or OneProcess()
        self.loops, self.rewards = loops, rewards
        named = [pair for group in trainable(policy).values() for pair in group]
        optim = settings.optim
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, optim.final)
        self.learner = Learner(policy, optim, rate, world=self.world, trained=named)
        self.start = EMA(named, 0.0)  # never updated: the weights as they are now
        self.partner = EMA(named, settings.partner.decay, warmup=True)
        self.balance = Balance(named, settings.loops.balance, settings.loops.conflict_every, self.world)
        self.kept = Kept()  # results of `Loop.measure`, for checkpoints
        self.part = data.captioned("train")
        self.order = RegionOrder(
            data, policy, settings.rollout.batch_size, settings.seed, settings.curriculum, settings.run.num_steps,
            self.start.applied, self.world, self.part,
        )  # fmt: skip

    @torch.no_grad()
    def measure(self) -> None:
        """Measure the policy as it starts, for the loops that need it."""
        index = np.arange(min(_DRAWS, self.data.count("train"))) if self.part is None else self.part[:_DRAWS]
        drawn = self.order.open("train", index) if len(index) > 1 else self.order.at(1)
        measured = {name: loop.measure(drawn) for name, loop in self.loops.items()}
        self.kept.values = {"measured": of_main(measured, self.world)}

    def step(self, step: int) -> dict[str, float]:
        """Do update number `step`, from 1; return metrics, defined in `motionkit.tracking`."""
        settings = self.settings
        regions = self.order.at(step)
        captioned = regions if self.part is None else self.order.captioned(step)
        scored, metrics = self._played(regions, step)
        weights = weights_at(settings, step)
        self.balance.observe(means_of(scored))
        for _ in range(settings.objective.inner_epochs):
            self.learner.zero_grad()
            losses = {}
            for name, roll in scored.items():
                loss, loop_metrics = loss_of(name, roll, settings.objective, self.world)
                losses[name] = weights[name] * loss
                metrics |= loop_metrics
            anchor = self._anchor(captioned, metrics)
            metrics |= self.balance.backward(losses, anchor, step)
            metrics |= self.learner.descend(step - 1, average=False)
            parts_of = [*losses.values(), *([] if anchor is None else [anchor])]
            total = float(sum(float(roll.detach()) for roll in parts_of))
            metrics |= sum_over({"loss/total": total}, self.world)
        self.partner.update()
        return metrics | {"data/epoch": step / self.order.per_epoch}

    def _played(self, regions: Task, step: int) -> tuple[dict[str, Scored], dict[str, float]]:
        """Play every loop that has a weight, and score what was made."""
        settings, rollout = self.settings, self.settings.rollout
        partners: dict[str, Weights] = {
            "ema": self.partner.applied, "student": as_it_is, "frozen": self.start.applied
        }  # fmt: skip
        # [B * G]: the samples of a region are adjacent
        rows = regions.repeated(rollout.group_size)
        temperature = linear(rollout.temperature, rollout.temperature_end, step, settings.run.num_steps)
        metrics: dict[str, float] = {"rollout/temperature": temperature}
        scored: dict[str, Scored] = {}
        weights = weights_at(settings, step)
        for place, (name, loop) in enumerate(self.loops.items()):
            if not weights[name]:
                continue
            noise = RowNoise((settings.seed, step, place), *rows_of(rows.masks, self.world), device=self.policy.device)
            measured = self.kept.values["measured"].get(name, {})
            turn = Turn(partners[settings.partner.kind], self.start.applied, noise, temperature, measured)
            loop_rows = rows
            if reads_captions(loop, self.rewards[name]) and (self.part is not None or loop.absent):
                loop_rows = self.order.captioned(step, loop.absent).repeated(rollout.group_size)
            scored[name] = roll_out(
                name, loop, self.rewards[name], loop_rows, turn, group=rollout.group_size,
                floor=settings.objective.std_floor,
                shuffle=(settings.seed, step) if settings.control.shuffle else None, world=self.world,
            )  # fmt: skip
            metrics |= scored[name].metrics
        return scored, metrics

    def _anchor(self, regions: Task, metrics: dict[str, float]) -> Tensor | None:
        """Return the weighted loss of the data's captions and masks."""
        weight = self.settings.loops.supervised
        if not weight:
            return None
        loss = supervised_loss(self.policy, regions.seen, regions.masks, regions.captions, world=self.world)
        metrics |= sum_over({"supervised/loss": float(loss.detach())}, self.world)
        metrics |= unknown_words(self.policy, regions.captions, self.world)
        return weight * loss
