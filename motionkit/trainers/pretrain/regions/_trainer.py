"""`motionkit pretrain regions`: the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.datasets.base import RegionDataset, Split
from motionkit.datasets.pictures import trained_pictures
from motionkit.errors import MotionkitError
from motionkit.evaluation.regions import open_task
from motionkit.policies.base import REGION_ARTIFACT as ARTIFACT
from motionkit.policies.regions.api import SeenImages, ShapesPolicy
from motionkit.runs import Run
from motionkit.trainers._device import describe_device, set_up
from motionkit.trainers._learner import Learner, cosine_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._regions import supervised_loss
from motionkit.trainers._state import Parts, restore
from motionkit.trainers._world import OneProcess, World, share_of, sum_over
from motionkit.trainers.base import LOSS, Figure, inputs_of
from motionkit.trainers.pretrain.regions import PretrainRegionsSettings
from motionkit.trainers.pretrain.regions._words import words_of


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
        parts: Parts = learner.parts()
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        if self.world.main:
            policy.save(run.artifact(ARTIFACT), tensors=None)
            trained_pictures(self.data).write(run.artifact(ARTIFACT))
        size, watched = settings.train.batch_size, min(settings.train.val_regions, self.data.count("val"))
        every = settings.train.val_every if watched else 0

        def step_fn(step: int) -> Mapping[str, float]:
            learner.zero_grad()
            index = (np.arange(size) + (step - 1) * size) % self.data.count("train")
            loss = supervised_loss(policy, *self._open("train", index[self.share]), world=self.world)
            loss.backward()
            metrics = sum_over({"loss/total": float(loss.detach())}, self.world) | learner.descend(step - 1)
            if every and (step % every == 0 or step == total):
                with torch.no_grad():
                    found = supervised_loss(policy, *self._open("val", np.arange(watched)))
                metrics["val/loss"] = float(found)
            return metrics

        if run_steps(run, settings, step_fn, parts, world=self.world) and self.world.main:
            # Half the bytes; what is lost is far below what training is sure of.
            policy.save(run.artifact(ARTIFACT), tensors={name: one.half() for name, one in policy.tensors().items()})
        return {}

    def _open(self, split: Split, index: NDArray[np.int64]) -> tuple[SeenImages, Tensor, tuple[str, ...]]:
        task = open_task(self.policy, self.data.regions(split, index))
        return task.seen, task.masks, task.captions
