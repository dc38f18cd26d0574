"""`motionkit sa2va-rl`: the trainer, and `Balance`, which adds up the gradients of its loops."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from motionkit.contracts.dataset import (
    Described,
    RegionDataset,
    Split,
    captioned_part,
    trained_pictures,
    untrained_regions,
)
from motionkit.contracts.open_model import trained_on
from motionkit.contracts.policy import REGION_ARTIFACT as ARTIFACT
from motionkit.contracts.policy import HasLimits, PlansMemory, RegionPolicy
from motionkit.errors import MotionkitError
from motionkit.nn import EMA
from motionkit.nn.lora import names_by_group
from motionkit.regions.evaluation.gallery import GALLERY, write_gallery
from motionkit.regions.evaluation.known import look_up
from motionkit.regions.evaluation.measure import Task, Weights, as_it_is, measure, open_task
from motionkit.regions.evaluation.result import CAPTIONS
from motionkit.regions.pretrain import supervised_loss, unknown_words
from motionkit.regions.self_play.loop import Loop, Turn
from motionkit.regions.self_play.play import ENDLESS, LoopRewards, RegionOrder, Scored, loss_of, means_of, roll_out
from motionkit.regions.self_play.preflight import REGIONS, Preflight
from motionkit.regions.self_play.settings import Sa2vaRlSettings
from motionkit.regions.self_play.summary import PATIENCE, SelfPlayAlarms, measure_both, summary_of
from motionkit.rl import RowNoise
from motionkit.runs import Run
from motionkit.training.base import Checked, Figure, inputs_of
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import Best, Learner, cosine_rate
from motionkit.training.steps import AverageState, Kept, Parts, State, restore, run_steps
from motionkit.training.world import OneProcess, World, of_main, rows_of, share_of, sum_over

_SMOOTH = 0.9
_FAST, _SLOW = 0.9, 0.99
_LEAST, _MOST = 0.1, 10.0
_IDLE = 1e-3  # least progress of a loop, in reward, so that none is left out for good

_logger = logging.getLogger("motionkit.sa2va_rl")
STEPS = 500
_READ = 64  # training captions whose words are looked up before the first step
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


class Sa2vaRl:
    """Self-play with GRPO; see `motionkit.training.base.Trainer`.

    A step samples actions of both loops for the same regions, lets a partner close the loops, and follows the gradient
    of the clipped surrogate. Kept are the last policy, and the one with the best captions on watched regions: by the
    IoU of the frozen judge's masks of them plus their METEOR.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "dataset", "policy", "loop1", "loop2", "loop3", "loop1_reward", "loop2_reward", "loop3_reward", "loops",
        "curriculum", "run.num_steps", "run.epochs", "rollout", "objective", "partner", "optim",
        "control", "heldout", "seed",
    )  # fmt: skip

    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("cycle IoU", ("loop1/cycle_iou",), smooth=True),
        Figure("reward", tuple(f"loop{place}/reward_mean" for place in (1, 2, 3)), smooth=True),
        Figure("judge IoU", ("regions/judge_iou_greedy",)),
    )

    def __init__(self, settings: Sa2vaRlSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Open data, policy and rewards, and choose what is trained."""
        settings = self.settings
        share_of(settings.rollout.batch_size, self.world, what="regions", flag="--batch-size")
        self.device = set_up(settings, small=True)
        self.memory: list[str] = []
        if isinstance(settings.policy.options, PlansMemory):
            size = settings.rollout
            self.memory = settings.policy.options.memory(
                regions=size.batch_size, group=size.group_size, device=self.device.type
            )
        for line in self.memory:
            _logger.info("memory plan: %s", line)
        self.data: RegionDataset = settings.dataset.build()
        self.policy: RegionPolicy = settings.policy.build(device=self.device, dataset=self.data)
        self.groups = trainable(self.policy)
        self.named = [pair for group in self.groups.values() for pair in group]
        chosen = {"loop1": settings.loop1, "loop2": settings.loop2, "loop3": settings.loop3}
        paid = {"loop1": settings.loop1_reward, "loop2": settings.loop2_reward, "loop3": settings.loop3_reward}
        self.loops: dict[str, Loop] = {
            name: choice.build(policy=self.policy) for name, choice in chosen.items() if choice is not None
        }
        self.rewards = {name: LoopRewards(paid[name], name, self.device, self.world, self.data) for name in self.loops}
        if settings.loop3 is not None and not settings.loop3_reward:
            raise MotionkitError("loop 3 is paid for nothing.", fix="--loop3-reward NAME says what for.")
        weights = [self._weights(step)[name] for step in (1, 2) for name in self.loops]
        if not any(weights) and not settings.loops.supervised:
            raise MotionkitError(
                "every loop has the weight 0: nothing would be learned.",
                fix="give --mask-to-caption-weight or --caption-to-mask-weight a value above 0.",
            )
        self.part = captioned_part(self.data)
        self.reads = {
            name: getattr(loop, "reads_captions", True) or self.rewards[name].reads_captions
            for name, loop in self.loops.items()
        }
        count = self.data.count("train")
        if count < settings.rollout.batch_size:
            raise MotionkitError(
                f"{self.data.name} has {count} training regions, a step takes {settings.rollout.batch_size}.",
                fix=f"--batch-size {count}",
            )
        if settings.run.epochs and count > ENDLESS:
            raise MotionkitError(
                f"--epochs has no meaning with {self.data.name}, whose training regions have no end.",
                fix="--num-steps sets how long it trains.",
            )
        per_epoch = max(1, count // settings.rollout.batch_size)
        steps = settings.run.num_steps or (settings.run.epochs * per_epoch) or STEPS
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update={"num_steps": steps})})
        needy = [
            choice
            for choice, reads in self.reads.items()
            if reads and any(self._weights(at)[choice] for at in (1, steps))
        ]
        needy += ["loops.supervised"] if settings.loops.supervised else []
        if self.part is not None and settings.curriculum.by == "ambiguity":
            raise MotionkitError(
                f"the curriculum by ambiguity reads the captions of all regions; a part of {self.data.name} has some.",
                fix="--set curriculum.by=area",
            )
        if self.part is not None and len(self.part) < 2 and needy:  # the spread of prompts is measured over captions
            count_of = "only one" if len(self.part) else "no"
            raise MotionkitError(
                f"{count_of} training region of {self.data.name} has a caption, and {needy[0]} reads captions.",
                fix="give more of them captions (--dataset.captioned), or --caption-to-mask-weight 0 and "
                "--set loops.supervised=0.",
            )
        named = {
            f"{name}_reward.{choice}": part
            for name in self.loops
            for choice, part in self.rewards[name].rewards.items()
        }
        picked = {f"{name}_reward.{choice.name}": choice for name in self.loops for choice in paid[name]}
        self.inputs = inputs_of({"dataset": self.data, "policy": self.policy, **named}, picked)
        self.items = trained_on(str(getattr(settings.policy.options, "checkpoint", ""))) | trained_pictures(self.data)
        self.notes: list[str] = []
        self.test_index, self.val_index = (self._held_out(split) for split in ("test", "val"))
        with torch.no_grad():  # a policy may refuse images of that size
            self.policy.see(self.data.regions("train", np.zeros(1, np.int64)).images)
        self.notes += self._unknown_words()

    def _unknown_words(self) -> list[str]:
        """Return a note if the policy does not know all words of the first training captions that may be read."""
        index = np.arange(min(_READ, self.data.count("train"))) if self.part is None else self.part[:_READ]
        if not isinstance(self.policy, HasLimits) or not len(index):
            return []
        captions = self.data.regions("train", index).captions
        if (share := self.policy.known_words(captions)) == 1:
            return []
        return [
            f"the policy knows {share:.0%} of the words of {len(captions)} training captions. It cannot say the "
            "others: they are left out of what it learns to say, and it reads each of them as the same word. "
            "motionkit pretrain regions makes a policy that knows the words of a data set."
        ]

    def _held_out(self, split: Split) -> NDArray[np.int64]:
        """Return the regions of a split to measure: those whose pictures were not trained on."""
        most = self.settings.heldout.regions
        index, kept = untrained_regions(self.items, self.data, split, most)
        if not len(index):
            self.notes.append(
                f"the policy was trained on the pictures of all {kept.total} {split} regions, which are measured all "
                "the same: the figures of this run are not held out."
            )
            return np.arange(min(most, self.data.count(split)))
        if kept.left_out:
            self.notes.append(kept.sentence(f"{split} regions"))
        return index

    def describe(self) -> Mapping[str, object]:
        """Return the plan, with every part that is trained."""
        counts = {group: sum(parameter.numel() for _, parameter in named) for group, named in self.groups.items()}
        total = sum(parameter.numel() for parameter in self.policy.network.parameters())
        rollout = self.settings.rollout
        return {
            **({"data": self.data.summary} if isinstance(self.data, Described) else {}),
            **({"the policy sees": self.policy.sees} if isinstance(self.policy, HasLimits) else {}),
            "trained": ", ".join(f"{group} {count:,}" for group, count in counts.items()),
            "frozen": f"{total - sum(counts.values()):,} of {total:,} parameters",
            "steps": f"{self.settings.run.num_steps} of {rollout.batch_size} regions x {rollout.group_size} samples",
            "loops": ", ".join(
                f"{name} ({', '.join(rewards.names)}) x {self._weights(1)[name]:g}"
                for name, rewards in self.rewards.items()
            ),
            **({"memory": self.memory} if self.memory else {}),
            **({"notes": self.notes} if self.notes else {}),
            "device": describe_device(self.device),
        }

    def check(self) -> Iterator[Checked]:
        """See `motionkit.training.base.Checks`."""
        count = min(REGIONS, self.data.count("train"))
        index = np.arange(count) if self.part is None or not len(self.part) else self.part[:count]
        task = open_task(self.policy, self.data.regions("train", index))
        return Preflight(self.settings, self.policy, self.groups, self.loops, self.rewards, task).run()

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings = self.settings
        if isinstance(self.data, Described):
            _logger.info("%s: %s", self.data.name, self.data.summary)
        for note in self.notes:
            _logger.warning("%s", note)
        optim = settings.optim
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, optim.final)
        learner = Learner(self.policy, optim, rate, world=self.world, trained=self.named)
        start = EMA(self.named, 0.0)  # never updated: the weights as they are now
        partner = EMA(self.named, settings.partner.decay, warmup=True)
        best, kept = Best(), Kept()
        balance = Balance(self.named, settings.loops.balance, settings.loops.conflict_every, self.world)
        order = RegionOrder(
            self.data, self.policy, settings.rollout.batch_size, settings.seed, settings.curriculum,
            settings.run.num_steps, start.applied, self.world, self.part,
        )  # fmt: skip
        alarms = SelfPlayAlarms(min(PATIENCE, order.per_epoch))
        averages = {"partner": AverageState(partner), "start": AverageState(start)}
        parts: Parts = {
            **learner.parts(), **averages, "best": best, "before": kept, "balance": balance, "alarms": alarms
        }  # fmt: skip
        heldout, watched = order.open("test", self.test_index), order.open("val", self.val_index)
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        else:
            _logger.info("measuring %d watched regions before training", len(watched))
            alarms.begin(self._watch(watched, start.applied), len(watched))
            with torch.no_grad():
                index = np.arange(min(_DRAWS, self.data.count("train"))) if self.part is None else self.part[:_DRAWS]
                drawn = order.open("train", index) if len(index) > 1 else order.at(1)
                measured = {name: loop.measure(drawn) for name, loop in self.loops.items()}
            kept.values = {"measured": of_main(measured, self.world)}
        partners: dict[str, Weights] = {"ema": partner.applied, "student": as_it_is, "frozen": start.applied}
        if self.world.main:
            self.policy.save(run.artifact(ARTIFACT), tensors=None)
            self.items.write(run.artifact(ARTIFACT))

        def step_fn(step: int) -> Mapping[str, float]:
            regions = order.at(step)
            captioned = regions if self.part is None else order.captioned(step)
            # [B * G]: the samples of a region are adjacent
            rows = regions.repeated(settings.rollout.group_size)
            weights = self._weights(step)
            temperature = linear(
                settings.rollout.temperature, settings.rollout.temperature_end, step, settings.run.num_steps
            )
            metrics: dict[str, float] = {"rollout/temperature": temperature}
            scored: dict[str, Scored] = {}
            for place, (name, loop) in enumerate(self.loops.items()):
                if weights[name]:
                    noise = RowNoise((settings.seed, step, place), *rows_of(rows.masks, self.world), device=self.device)
                    measured = kept.values["measured"].get(name, {})
                    turn = Turn(partners[settings.partner.kind], start.applied, noise, temperature, measured)
                    loop_rows = rows
                    absent = getattr(loop, "absent", 0.0)
                    if self.reads[name] and (self.part is not None or absent):
                        shown = order.captioned(step, absent)
                        loop_rows = shown.repeated(settings.rollout.group_size)
                    scored[name] = roll_out(
                        name, loop, self.rewards[name], loop_rows, turn, group=settings.rollout.group_size,
                        floor=settings.objective.std_floor,
                        shuffle=(settings.seed, step) if settings.control.shuffle else None, world=self.world,
                    )  # fmt: skip
                    metrics |= scored[name].metrics
            balance.observe(means_of(scored))
            for _ in range(settings.objective.inner_epochs):
                learner.zero_grad()
                losses = {}
                for name, roll in scored.items():
                    loss, loop_metrics = loss_of(name, roll, settings.objective, self.world)
                    losses[name] = weights[name] * loss
                    metrics |= loop_metrics
                anchor = self._anchor(captioned, metrics)
                metrics |= balance.backward(losses, anchor, step)
                metrics |= learner.descend(step - 1, average=False)
                parts_of = [*losses.values(), *([] if anchor is None else [anchor])]
                total = float(sum(float(roll.detach()) for roll in parts_of))
                metrics |= sum_over({"loss/total": total}, self.world)
            partner.update()
            metrics["data/epoch"] = step / order.per_epoch
            interval = settings.heldout.every
            if interval and (step % interval == 0 or step == settings.run.num_steps):
                seen = self._watch(watched, start.applied)
                metrics |= seen
                # The judge's masks do not reveal every wrong word, and METEOR does not see masks.
                worth = sum(seen[f"regions/{name}_greedy"] for name in ("judge_iou", "meteor"))
                best.offer(of_main(worth, self.world), step, self.policy.tensors())
            for text in alarms.look(metrics):
                _logger.warning("step %d: %s", step, text)
            return metrics

        if not run_steps(run, settings, step_fn, parts, world=self.world):
            return {}
        if self.world.main:
            self.policy.save(run.artifact(f"{ARTIFACT}-last"), tensors=self.policy.tensors())
            self.items.write(run.artifact(f"{ARTIFACT}-last"))
        if best.tensors:
            self.policy.load_tensors(best.tensors)
        _logger.info("measuring %d held-out regions before and after training", len(heldout))
        known = look_up(self.data, "test", self.test_index)
        figures = measure_both(self.policy, heldout, start.applied, known, settings.rollout.temperature)
        if self.world.main:
            self.policy.save(run.artifact(ARTIFACT), tensors=self.policy.tensors())
        before, after = figures.greedy
        write_gallery(run.artifact(GALLERY), self.data, "test", self.test_index, after, before)
        return summary_of(figures, self.policy, heldout, known, self.data.name, best.step, settings.seed)

    def _watch(self, watched: Task, start: Weights) -> dict[str, float]:
        """Return the metrics of the watched regions, of greedy captions."""
        means = measure(self.policy, watched, start, look_up(self.data, "val", self.val_index)).means
        once = {name: f"regions/{name}" for name in ("referring_iou", "no_target")}
        named = {name: f"regions/{name}_greedy" for name in CAPTIONS} | once
        return {key: means[name] for name, key in named.items() if name in means}

    def _weights(self, step: int) -> dict[str, float]:
        loops, steps = self.settings.loops, self.settings.run.num_steps
        return {
            "loop1": linear(loops.mask_to_caption, loops.mask_to_caption_end, step, steps),
            "loop2": linear(loops.caption_to_mask, loops.caption_to_mask_end, step, steps),
            "loop3": loops.third,
        }

    def _anchor(self, regions: Task, metrics: dict[str, float]) -> Tensor | None:
        """Return the weighted loss of the data's captions and masks."""
        weight = self.settings.loops.supervised
        if not weight:
            return None
        loss = supervised_loss(self.policy, regions.seen, regions.masks, regions.captions, world=self.world)
        metrics |= sum_over({"supervised/loss": float(loss.detach())}, self.world)
        metrics |= unknown_words(self.policy, regions.captions, self.world)
        return weight * loss
