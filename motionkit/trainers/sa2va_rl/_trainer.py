"""`motionkit sa2va-rl`: the trainer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.datasets.base import RegionDataset, Split
from motionkit.errors import MotionkitError
from motionkit.nn import EMA
from motionkit.policies.base import REGION_ARTIFACT as ARTIFACT
from motionkit.policies.base import RegionPolicy
from motionkit.rl import Surrogate, group_std, kl_k3, shuffled, weighted_mean
from motionkit.runs import Run
from motionkit.tracking import result_table, results
from motionkit.trainers._best import Best
from motionkit.trainers._device import describe_device, set_up
from motionkit.trainers._learner import Learner, constant_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._regions import masks_at, supervised_loss
from motionkit.trainers._state import AverageState, Kept, Parts, restore
from motionkit.trainers._world import OneProcess, World, mean_over, of_main, rows_of, share_of, sum_over
from motionkit.trainers.sa2va_rl._gallery import FOLDER, write_gallery
from motionkit.trainers.sa2va_rl._loops import CaptionToMask, Loop, MaskToCaption, Played, Task, Weights
from motionkit.trainers.sa2va_rl._measure import NAMES, RegionFigures, as_it_is, change_of, measure
from motionkit.trainers.sa2va_rl._noise import RowNoise
from motionkit.trainers.sa2va_rl._rewards import LoopRewards
from motionkit.trainers.sa2va_rl._settings import Sa2vaRlSettings
from motionkit.trainers.sa2va_rl._trainable import trainable

_logger = logging.getLogger("motionkit.sa2va_rl")
STEPS = 300
_DRAWS = 256
"""Regions from which the spread of the policy's prompts is measured."""

_ENDLESS = 1 << 20
"""Regions from which data are not put in order for each pass."""

_PICTURES = 12


class Sa2vaRl:
    """Self-play with GRPO; see `motionkit.trainers.base.Trainer`.

    A step samples actions of both loops for the same regions, lets a partner close the loops, and follows the gradient
    of the clipped surrogate. The policy that was best by the frozen judge on watched regions is kept beside the last.

    Args:
        settings: All settings.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "dataset", "policy", "loop1_reward", "loop2_reward", "loops", "rollout", "objective", "partner", "optim",
        "control", "heldout", "seed",
    )  # fmt: skip

    def __init__(self, settings: Sa2vaRlSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Open data, policy and rewards, and choose what is trained.

        Raises:
            MotionkitError: An input is missing, or the parts do not fit each other.
        """
        settings = self.settings
        self.share = share_of(settings.rollout.batch_size, self.world, what="regions", flag="--batch-size")
        self.device = set_up(settings, small=True)
        self.data: RegionDataset = settings.dataset.build()
        self.policy: RegionPolicy = settings.policy.build(device=self.device, dataset=self.data)
        self.groups = trainable(self.policy)
        self.named = [pair for own in self.groups.values() for pair in own]
        loops = settings.loops
        self.rewards = {
            "loop1": LoopRewards(settings.loop1_reward, "loop1", self.device, self.world),
            "loop2": LoopRewards(settings.loop2_reward, "loop2", self.device, self.world),
        }
        self.weights = {"loop1": loops.mask_to_caption, "loop2": loops.caption_to_mask}
        count = self.data.count("train")
        if settings.run.epochs and count > _ENDLESS:
            raise MotionkitError(
                f"--epochs has no meaning with {self.data.name}, whose training regions have no end.",
                fix="--num-steps sets how long it trains.",
            )
        per_epoch = max(1, count // settings.rollout.batch_size)
        steps = settings.run.num_steps or (settings.run.epochs * per_epoch) or STEPS
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update={"num_steps": steps})})
        self.per_epoch = per_epoch
        self.inputs: dict[str, str] = {}

    def describe(self) -> Mapping[str, object]:
        """Return the plan, with every part that is trained."""
        counts = {group: sum(parameter.numel() for _, parameter in own) for group, own in self.groups.items()}
        total = sum(parameter.numel() for parameter in self.policy.network.parameters())
        rollout = self.settings.rollout
        return {
            "trained": ", ".join(f"{group} {count:,}" for group, count in counts.items()),
            "frozen": f"{total - sum(counts.values()):,} of {total:,} parameters",
            "steps": f"{self.settings.run.num_steps} of {rollout.batch_size} regions x {rollout.group_size} samples",
            "loops": ", ".join(
                f"{name} ({', '.join(self.rewards[name].names)}) x {weight:g}" for name, weight in self.weights.items()
            ),
            "device": describe_device(self.device),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        settings = self.settings
        optim = settings.optim
        rate = constant_rate(optim.learning_rate, optim.warmup_steps)
        learner = Learner(self.policy, optim, rate, world=self.world, trained=self.named)
        start = EMA(self.named, 0.0)  # never updated: the weights as they are now
        partner = EMA(self.named, settings.partner.decay, warmup=True)
        best, kept = Best(), Kept()
        parts: Parts = {
            **learner.parts(),
            "partner": AverageState(partner),
            "start": AverageState(start),
            "best": best,
            "before": kept,
        }
        held, watched = self._task("test", settings.heldout.regions), self._task("val", settings.heldout.regions)
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        else:
            found = measure(self.policy, held, start.applied, temperature=settings.rollout.temperature)
            kept.tensors = {**{name: torch.from_numpy(one) for name, one in found.scores.items()},
                            "masks": torch.from_numpy(found.masks)}  # fmt: skip
            kept.values = {"sigma": settings.rollout.sigma * self._spread(), "captions": found.captions}
        partners: dict[str, Weights] = {"ema": partner.applied, "student": as_it_is, "frozen": start.applied}
        sigma = float(kept.values["sigma"])
        loops: list[Loop] = [
            MaskToCaption(self.policy, settings.rollout.temperature, kl_k3), CaptionToMask(self.policy, sigma),
        ]  # fmt: skip
        if self.world.main:
            self.policy.save(run.artifact(ARTIFACT), tensors=None)

        def step_fn(step: int) -> Mapping[str, float]:
            regions = self._train_task(step)
            rows = regions.repeated(settings.rollout.group_size)
            close = partners[settings.partner.kind]
            metrics: dict[str, float] = {}
            played: dict[str, tuple[Played, Tensor, Tensor]] = {}
            for place, loop in enumerate(loops):
                if self.weights[loop.name]:
                    noise = RowNoise((settings.seed, step, place), *rows_of(rows.masks, self.world), device=self.device)
                    found = loop.play(rows, close, start.applied, noise)
                    played[loop.name] = (found, *self._advantages(loop.name, found, step, metrics))
            for _ in range(settings.objective.inner_epochs):
                learner.zero_grad()
                self._loss(played, regions, metrics).backward()
                metrics |= learner.descend(step - 1, average=False)
            partner.update()
            metrics["data/epoch"] = step / self.per_epoch
            every = settings.heldout.every
            if every and (step % every == 0 or step == settings.run.num_steps):
                seen = measure(self.policy, watched, start.applied, temperature=settings.rollout.temperature).means
                metrics |= {f"regions/{name}": value for name, value in seen.items()}
                best.offer(of_main(seen["judge_iou"], self.world), step, self.policy.tensors())
            return metrics

        if not run_steps(run, settings, step_fn, parts, world=self.world):
            return {}
        if self.world.main:
            self.policy.save(run.artifact(f"{ARTIFACT}-last"), tensors=self.policy.tensors())
        if best.tensors:
            self.policy.load_tensors(best.tensors)
        after = measure(self.policy, held, start.applied, temperature=settings.rollout.temperature)
        if self.world.main:
            self.policy.save(run.artifact(ARTIFACT), tensors=self.policy.tensors())
        shown = self.data.regions("test", np.arange(min(settings.heldout.regions, self.data.count("test"))))
        write_gallery(run.artifact(FOLDER), shown, _figures(kept), after, _PICTURES)
        return self._finish(kept, after, best.step)

    def _task(self, split: Split, count: int) -> Task:
        return self._open(split, np.arange(min(count, self.data.count(split))))

    def _train_task(self, step: int) -> Task:
        """Return this process's regions of a step: each once before any comes again, in a new order each pass."""
        size, count = self.settings.rollout.batch_size, self.data.count("train")
        epoch, place = divmod((step - 1) * size, self.per_epoch * size)
        if count > _ENDLESS:
            return self._open("train", np.arange(place, place + size)[self.share])
        order = np.random.default_rng((self.settings.seed, epoch)).permutation(count)
        return self._open("train", order[place : place + size][self.share])

    @torch.no_grad()
    def _open(self, split: Split, index: NDArray[np.int64]) -> Task:
        found = self.data.regions(split, index)
        masks = masks_at(found.masks, self.policy.mask_size).to(self.device)
        return Task(self.policy.see(found.images), masks, found.captions)

    @torch.no_grad()
    def _spread(self) -> float:
        """Return the standard deviation of the policy's own prompts over captions, the mean over their numbers."""
        task = self._task("train", _DRAWS)
        return float(self.policy.prompts(task.seen, task.captions).std(0).mean())

    def _advantages(self, name: str, played: Played, step: int, metrics: dict[str, float]) -> tuple[Tensor, Tensor]:
        """Return ``[N]`` advantages, and ``[N]`` bool: samples of groups with something to learn from."""
        settings, world = self.settings, self.world
        group = settings.rollout.group_size
        size = settings.rollout.batch_size // world.size
        scores = self.rewards[name](played.made)
        groups = torch.arange(size, device=self.device).repeat_interleave(group)
        found = group_std(scores.total, groups, valid=scores.finite, std_floor=settings.objective.std_floor)
        advantages = found.values
        alive = (advantages.view(size, group) != 0).any(1).repeat_interleave(group)
        if settings.control.shuffle:
            advantages = shuffled(world.gather(advantages), settings.seed, step)[rows_of(advantages, world)[1]]
        spread = scores.total.view(size, group).std(1)
        means = {f"{name}/{key}": value for key, value in played.metrics.items()} | {
            f"{name}/reward_mean": float(scores.total.mean()), f"{name}/reward_std": float(spread.mean()),
            f"{name}/zero_std_frac": float(found.zero_variance) / size,
        }  # fmt: skip
        metrics |= dict(scores.metrics) | mean_over(means, world)
        return advantages, alive

    def _loss(
        self, played: Mapping[str, tuple[Played, Tensor, Tensor]], regions: Task, metrics: dict[str, float]
    ) -> Tensor:
        """Return this process's share of the loss of both loops and of the anchor; `metrics` gets the whole."""
        objective = self.settings.objective
        shares: dict[str, float] = {}
        surrogate = Surrogate(objective.clip_range, objective.clip_high, on_policy=objective.inner_epochs == 1)
        total = torch.zeros((), device=self.device)
        for name, (found, advantages, alive) in played.items():
            terms = found.terms()
            weight, count = _normalised(terms.mask & alive[:, None], objective.normalize, self.world)
            policy = surrogate.loss(terms.log_ratio, advantages, weight, total=count)
            kl = weighted_mean(terms.kl, weight, count)
            loss = policy + objective.kl_coef * kl
            if terms.entropy is not None and objective.entropy:
                loss = loss - objective.entropy * weighted_mean(terms.entropy, weight, count)
            measured = surrogate.measure(terms.log_ratio.detach(), advantages, weight)
            shares |= {
                f"{name}/loss": float(loss.detach()), f"{name}/policy_loss": float(policy.detach()),
                f"{name}/kl_div": float(kl.detach()),
                f"{name}/clip_frac": float(measured["clip_fraction"]) / (len(advantages) * self.world.size),
            }  # fmt: skip
            total = total + self.weights[name] * loss
        if self.settings.loops.supervised:
            anchor = supervised_loss(self.policy, regions.seen, regions.masks, regions.captions, world=self.world)
            shares["supervised/loss"] = float(anchor.detach())
            total = total + self.settings.loops.supervised * anchor
        metrics |= sum_over({**shares, "loss/total": float(total.detach())}, self.world)
        return total

    def _finish(self, before: Kept, after: RegionFigures, step: int) -> dict[str, object]:
        seed = self.settings.seed
        heldout = {name: change_of(before.tensors[name].numpy(), after.scores[name], seed) for name in NAMES}
        rows = results(heldout)
        count = len(after.captions)
        said = _verdict(heldout)
        _logger.info("%s", said)
        return {
            "heldout": heldout,
            "measured_on": f"{count:,} held-out regions, a sampled caption of each, the same draws before and after. "
            "The interval is a 95 % bootstrap over regions.",
            "table": [result_table(rows, f"{count:,} held-out regions, sampled captions")],
            "verdict": said,
            "best_step": step,
        }  # fmt: skip


def _figures(kept: Kept) -> RegionFigures:
    """Return what was measured before training."""
    scores = {name: kept.tensors[name].numpy() for name in NAMES}
    return RegionFigures(scores, list(kept.values["captions"]), kept.tensors["masks"].numpy())


def _normalised(mask: Tensor, how: str, world: World | None = None) -> tuple[Tensor, int]:
    """Return the weight of each decision ``[N, S]`` and what the mean divides by, that of all processes' samples."""
    world = world or OneProcess()
    weight = mask.float()
    if how == "token":
        return weight, max(1, int(world.sum(mask.sum())))
    if how == "sequence":
        return weight / mask.sum(1, keepdim=True).clamp(min=1), len(mask) * world.size
    longest = int(world.gather(torch.tensor([mask.shape[1]])).max())
    return weight / longest, len(mask) * world.size


def _verdict(heldout: Mapping[str, Mapping[str, Any]]) -> str:
    def said(name: str) -> str:
        one = heldout[name]
        return f"from {one['before']:.3f} to {one['after']:.3f}"

    better = heldout["judge_iou"]["ci95"][0] > 0
    head = "both directions agree more" if better else "the frozen judge sees no clear gain"
    return (
        f"{head}: cycle IoU {said('cycle_iou')} (by the policy as it started {said('judge_iou')}), METEOR "
        f"{said('meteor')}, referring IoU {said('referring_iou')}."
    )
