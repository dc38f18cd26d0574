"""`motionkit sa2va-rl`: the trainer."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.contracts.open_model import trained_on
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.nn.sharding import gathered
from motionkit.runs import Run
from motionkit.training.base import Checked, Figure, inputs_of
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import Best
from motionkit.training.steps import AverageState, Parts, restore, run_steps
from motionkit.training.world import OneProcess, World, of_main, share_of
from motionkit_regions.datasets.base import (
    RegionDataset,
    trained_pictures,
    untrained_regions,
)
from motionkit_regions.evaluation.gallery import GALLERY, write_gallery
from motionkit_regions.evaluation.known import look_up
from motionkit_regions.evaluation.measure import Task, Weights, measure, open_task
from motionkit_regions.evaluation.result import CAPTIONS
from motionkit_regions.policy import REGION_ARTIFACT as ARTIFACT
from motionkit_regions.policy import PlansMemory, RegionPolicy
from motionkit_regions.self_play.loop import Loop
from motionkit_regions.self_play.play import ENDLESS, LoopRewards
from motionkit_regions.self_play.preflight import REGIONS, Preflight
from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.step import SelfPlay, reads_captions, trainable, weights_at
from motionkit_regions.self_play.summary import PATIENCE, SelfPlayAlarms, measure_both, summary_of

_logger = logging.getLogger("motionkit.sa2va_rl")
STEPS = 500
_READ = 64  # training captions whose words are looked up before the first step


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
        share = share_of(settings.rollout.batch_size, self.world, what="regions", flag="--batch-size")
        sharded = settings.shard == "full"
        if sharded:
            self._refuse_unsharded()
        self.device = set_up(settings, small=True)
        self.memory: list[str] = []
        if isinstance(settings.policy.options, PlansMemory):
            self.memory = settings.policy.options.memory(
                regions=share.stop - share.start, group=settings.rollout.group_size, device=self.device.type,
                **({"shards": self.world.size} if sharded else {}),
            )  # fmt: skip
        for line in self.memory:
            _logger.info("memory plan: %s", line)
        self.data: RegionDataset = settings.dataset.build()
        more: dict[str, Any] = {"world": self.world} if sharded else {}
        self.policy: RegionPolicy = settings.policy.build(device=self.device, dataset=self.data, **more)
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
        weights = [weights_at(settings, step)[name] for step in (1, 2) for name in self.loops]
        if not any(weights) and not settings.loops.supervised:
            raise MotionkitError(
                "every loop has the weight 0: nothing would be learned.",
                fix="give --mask-to-caption-weight or --caption-to-mask-weight a value above 0.",
            )
        self.part = self.data.captioned("train")
        self.reads = {name: reads_captions(loop, self.rewards[name]) for name, loop in self.loops.items()}
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
            if reads and any(weights_at(self.settings, at)[choice] for at in (1, steps))
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
        self.items = trained_on(str(settings.policy.get("checkpoint", ""))) | trained_pictures(self.data)
        self.notes: list[str] = []
        self.test_index, self.val_index = (self._held_out(split) for split in ("test", "val"))
        with torch.no_grad():  # a policy may refuse images of that size
            self.policy.see(self.data.regions("train", np.zeros(1, np.int64)).images)
        self.notes += self._unknown_words()

    def _refuse_unsharded(self) -> None:
        """Refuse what has nothing to shard, or reads gradients that are not there under sharding."""
        settings, loops = self.settings, self.settings.loops
        if self.world.size == 1:
            raise MotionkitError(
                "--shard full shares out a policy over several processes, and this is one.",
                fix="torchrun --nproc-per-node 2 -m motionkit sa2va-rl --shard full ..., or --shard none.",
            )
        factory: Any = settings.policy.component.load()
        if "world" not in inspect.signature(factory).parameters:
            raise MotionkitError(
                f"the policy {settings.policy.label} cannot be sharded.",
                why="it does not say which of its layers can be gathered by themselves.",
                fix="--shard none: every process holds the whole policy.",
            )
        for name, asked in (
            ("balance=gradient", loops.balance == "gradient"),
            ("conflict_every", loops.conflict_every),
        ):
            if asked:
                raise MotionkitError(
                    f"loops.{name} has no meaning with --shard full.",
                    why="it compares the gradient of each loop, and of sharded weights there is their sum alone.",
                    fix=f"leave out loops.{name.partition('=')[0]}, or --shard none.",
                )
        if settings.check:
            raise MotionkitError("--check is made of a whole policy.", fix="--shard none.")

    def _unknown_words(self) -> list[str]:
        """Return a note if the policy does not know all words of the first training captions that may be read."""
        index = np.arange(min(_READ, self.data.count("train"))) if self.part is None else self.part[:_READ]
        if not len(index):
            return []
        captions = self.data.regions("train", index).captions
        share = self.policy.known_words(captions)
        if share is None or share == 1:
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
            **({"data": self.data.summary} if self.data.summary else {}),
            **({"the policy sees": self.policy.sees} if self.policy.sees else {}),
            "trained": ", ".join(f"{group} {count:,}" for group, count in counts.items()),
            "frozen": f"{total - sum(counts.values()):,} of {total:,} parameters",
            "steps": f"{self.settings.run.num_steps} of {rollout.batch_size} regions x {rollout.group_size} samples",
            "loops": ", ".join(
                f"{name} ({', '.join(rewards.names)}) x {weights_at(self.settings, 1)[name]:g}"
                for name, rewards in self.rewards.items()
            ),
            **({"memory": self.memory} if self.memory else {}),
            **({"notes": self.notes} if self.notes else {}),
            "device": describe_device(self.device),
        }

    def check(self) -> Iterator[Checked]:
        """See `motionkit.training.base.Trainer.check`."""
        count = min(REGIONS, self.data.count("train"))
        index = np.arange(count) if self.part is None or not len(self.part) else self.part[:count]
        task = open_task(self.policy, self.data.regions("train", index))
        return Preflight(self.settings, self.policy, self.groups, self.loops, self.rewards, task).run()

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings = self.settings
        if self.data.summary:
            _logger.info("%s: %s", self.data.name, self.data.summary)
        for note in self.notes:
            _logger.warning("%s", note)
        play = SelfPlay(settings, self.policy, self.data, self.loops, self.rewards, world=self.world)
        order, start = play.order, play.start.applied
        best = Best()
        alarms = SelfPlayAlarms(min(PATIENCE, order.per_epoch))
        parts: Parts = {
            **play.learner.parts(), "partner": AverageState(play.partner), "start": AverageState(play.start),
            "best": best, "before": play.kept, "balance": play.balance, "alarms": alarms,
        }  # fmt: skip
        heldout, watched = order.open("test", self.test_index), order.open("val", self.val_index)
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        else:
            _logger.info("measuring %d watched regions before training", len(watched))
            alarms.begin(self._watch(watched, start), len(watched))
            play.measure()
        if self.world.main:
            self.policy.save(run.artifact(ARTIFACT), tensors=None)
            self.items.write(run.artifact(ARTIFACT))

        def step_fn(step: int) -> Mapping[str, float]:
            metrics = play.step(step)
            interval = settings.heldout.every
            if interval and (step % interval == 0 or step == settings.run.num_steps):
                seen = self._watch(watched, start)
                metrics |= seen
                # The judge's masks do not reveal every wrong word, and METEOR does not see masks.
                worth = sum(seen[f"regions/{name}_greedy"] for name in ("judge_iou", "meteor"))
                best.offer(of_main(worth, self.world), step, self.policy.tensors())
            for text in alarms.look(metrics):
                _logger.warning("step %d: %s", step, text)
            return metrics

        if not run_steps(run, settings, step_fn, parts, world=self.world):
            return {}
        self._save(run, f"{ARTIFACT}-last")
        if best.tensors:
            self.policy.load_tensors(best.tensors)
        _logger.info("measuring %d held-out regions before and after training", len(heldout))
        known = look_up(self.data, "test", self.test_index)
        figures = measure_both(self.policy, heldout, start, known, settings.rollout.temperature)
        self._save(run, ARTIFACT)
        before, after = figures.greedy
        write_gallery(run.artifact(GALLERY), self.data, "test", self.test_index, after, before)
        return summary_of(figures, self.policy, heldout, known, self.data.name, best.step, settings.seed)

    def _save(self, run: Run, name: str) -> None:
        """Write the policy into a folder of the run; every process calls it."""
        tensors = gathered(self.policy.tensors(), keep=self.world.main)
        if self.world.main:
            self.policy.save(run.artifact(name), tensors=tensors)
            self.items.write(run.artifact(name))

    def _watch(self, watched: Task, start: Weights) -> dict[str, float]:
        """Return the metrics of the watched regions, of greedy captions."""
        means = measure(self.policy, watched, start, look_up(self.data, "val", self.val_index)).means
        once = {name: f"regions/{name}" for name in ("referring_iou", "no_target")}
        named = {name: f"regions/{name}_greedy" for name in CAPTIONS} | once
        return {key: means[name] for name, key in named.items() if name in means}
