"""`motionkit pretrain regions`: the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.datasets.base import NamesAbsent, RegionDataset, Split, captioned_part
from motionkit.datasets.pictures import trained_pictures
from motionkit.errors import MotionkitError
from motionkit.evaluation.regions._known import look_up
from motionkit.evaluation.regions._task import masks_at
from motionkit.policies.base import REGION_ARTIFACT as ARTIFACT
from motionkit.policies.regions._policy import SeenImages, ShapesPolicy
from motionkit.runs import Run
from motionkit.trainers._best import Best
from motionkit.trainers._device import describe_device, set_up
from motionkit.trainers._learner import Learner, cosine_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._regions import mask_loss, supervised_loss
from motionkit.trainers._state import Parts, restore
from motionkit.trainers._world import OneProcess, World, share_of, sum_over
from motionkit.trainers.base import LOSS, Figure, inputs_of
from motionkit.trainers.pretrain.regions import PretrainRegionsSettings
from motionkit.trainers.pretrain.regions._eyes import Eyes, pointed_at
from motionkit.trainers.pretrain.regions._words import words_of

_ABSENT = 0.5  # weight of the mask of what an image does not show


class PretrainRegions:
    """Trains a region policy on captions and masks; see `motionkit.trainers.base.Trainer`.

    Args:
        settings: All settings.
    """

    shape_keys: ClassVar[tuple[str, ...]] = ("dataset", "model", "train", "optim", "seed", "run.num_steps")

    figures: ClassVar[tuple[Figure, ...]] = (LOSS,)

    def __init__(self, settings: PretrainRegionsSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Open the data and make the network.

        Raises:
            MotionkitError: The data do not fit the sizes.
        """
        settings = self.settings
        self.share = share_of(settings.train.batch_size, self.world, what="regions", flag="--batch-size")
        self.device = set_up(settings, small=True)
        self.data: RegionDataset = settings.dataset.build()
        model = settings.model
        first = self.data.regions("train", np.zeros(1, np.int64))
        for name, own, theirs in (
            ("image_size", model.image_size, first.images[0].shape[:2]),
            ("mask_size", model.mask_size, first.masks[0].shape),
        ):
            if theirs != (own, own) and not model.resize:
                square = f"--set model.{name}={theirs[0]}, or " if theirs[0] == theirs[1] else ""
                raise MotionkitError(
                    f"model.{name} is {own} and that of {self.data.name} is {theirs[0]} x {theirs[1]}.",
                    fix=f"{square}--set model.resize=true squeezes images and masks to the policy's sizes.",
                )
        words = getattr(self.data, "words", None) or words_of(self.data)
        self.part = captioned_part(self.data)
        if self.part is not None and not len(self.part):
            raise MotionkitError(
                f"no training region of {self.data.name} has a caption.",
                fix="give more of them one (--dataset.captioned).",
            )
        if settings.train.best and not settings.train.val_every:
            raise MotionkitError("train.best needs validation.", fix="--set train.val_every=50")
        self.policy = ShapesPolicy(model, words, device=self.device)
        self.inputs = inputs_of({"dataset": self.data})

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        parts = {
            name: sum(one.numel() for one in part.parameters()) for name, part in self.policy.network.named_children()
        }
        return {
            "parameters": ", ".join(f"{name} {count:,}" for name, count in parts.items()),
            "the policy sees": self.policy.sees,
            "words": f"{len(self.policy.words.words):,}",
            "steps": f"{self.settings.run.num_steps} of {self.settings.train.batch_size} regions",
            "device": describe_device(self.device),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        settings, policy = self.settings, self.policy
        optim, total = settings.optim, settings.run.num_steps
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, total, settings.train.final_rate)
        learner = Learner(policy, optim, rate, world=self.world)
        best, eyes = Best(), Eyes(policy, settings.seed)
        parts: Parts = {**learner.parts(), "best": best} if settings.train.best else learner.parts()
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        if self.world.main:
            policy.save(run.artifact(ARTIFACT), tensors=None)
            trained_pictures(self.data).write(run.artifact(ARTIFACT))
        every = settings.train.val_every if self.data.count("val") else 0

        def step_fn(step: int) -> Mapping[str, float]:
            learner.zero_grad()
            if step <= settings.train.eyes:
                loss = self._seen(eyes, self._all(step), step) / self.world.size
            else:
                loss = self._told(self._captioned(step))
            loss.backward()
            metrics = sum_over({"loss/total": float(loss.detach())}, self.world) | learner.descend(step - 1)
            if every and (step % every == 0 or step == total):
                metrics["val/loss"] = found = self._validate(eyes, step)
                if settings.train.best and step > settings.train.eyes:
                    best.offer(-found, step, policy.tensors())
            return metrics

        if run_steps(run, settings, step_fn, parts, world=self.world) and self.world.main:
            if best.tensors:
                policy.load_tensors(best.tensors)
            # Half the bytes; what is lost is far below what training is sure of.
            policy.save(run.artifact(ARTIFACT), tensors={name: one.half() for name, one in policy.tensors().items()})
        return {}

    def _all(self, step: int) -> NDArray[np.int64]:
        """Return this process's regions of a step, whether they have captions or not."""
        size = self.settings.train.batch_size
        return ((np.arange(size) + (step - 1) * size) % self.data.count("train"))[self.share]

    def _captioned(self, step: int) -> NDArray[np.int64]:
        """Return this process's regions of a step whose captions may be read, each once before any comes again."""
        if self.part is None:
            return self._all(step)
        size = self.settings.train.batch_size
        epoch, place = divmod((step - 1) * size, max(1, len(self.part) // size) * size)
        order = np.random.default_rng((self.settings.seed, epoch)).permutation(self.part)
        return np.resize(order[place:], size)[self.share]

    def _seen(self, eyes: Eyes, index: NDArray[np.int64], step: int, split: Split = "train") -> Tensor:
        found = self.data.regions(split, index)
        key = (self.settings.seed, step)
        masks = masks_at(pointed_at(found.masks, found.others, key), self.policy.mask_size)
        return eyes.loss(self.policy.sized(found.images), masks, key)

    def _told(self, index: NDArray[np.int64], split: Split = "train") -> Tensor:
        """Return this process's share of the loss of captions and masks, and of what an image does not show."""
        policy = self.policy
        seen, masks, captions = self._open(split, index)
        loss = supervised_loss(policy, seen, masks, captions, world=self.world if split == "train" else None)
        count = round(self.settings.train.absent * len(index))
        if not count or not isinstance(self.data, NamesAbsent):
            return loss
        named = {place: text for place, text in enumerate(look_up(self.data, split, index[:count]).absent) if text}
        if not named:
            return loss
        rows = torch.tensor(list(named), device=self.device)
        some = seen.select(rows)
        drawn = policy.draw(some, policy.prompts(some, list(named.values())))
        size = self.world.size if split == "train" else 1
        return loss + _ABSENT * mask_loss(drawn, torch.zeros_like(masks[rows])).mean() / size

    @torch.no_grad()
    def _validate(self, eyes: Eyes, step: int) -> float:
        index = np.arange(min(self.settings.train.val_regions, self.data.count("val")))
        if step <= self.settings.train.eyes:
            return float(self._seen(eyes, index, 0, "val"))
        return float(self._told(index, "val"))

    def _open(self, split: Split, index: NDArray[np.int64]) -> tuple[SeenImages, Tensor, tuple[str, ...]]:
        """Look at regions, with a graph; encoders that learned without captions stay as they are."""
        found = self.data.regions(split, index)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.settings.train.eyes):
            seen = self.policy.see(found.images)
        return seen, masks_at(found.masks, self.policy.mask_size).to(self.device), found.captions
