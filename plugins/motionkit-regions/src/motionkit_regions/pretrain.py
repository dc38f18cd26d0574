"""`motionkit pretrain regions`: the trainer, and the losses that every trainer of a region policy shares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.runs import Run
from motionkit.training.base import LOSS, Figure, inputs_of
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.supervised import fit
from motionkit.training.world import OneProcess, World, mean_over, share_of, sum_over
from motionkit_regions.datasets.base import RegionDataset, names_absent, trained_pictures
from motionkit_regions.evaluation.known import look_up
from motionkit_regions.evaluation.measure import masks_at
from motionkit_regions.policy import REGION_ARTIFACT as ARTIFACT
from motionkit_regions.policy import RegionPolicy
from motionkit_regions.pretrain_settings import PretrainRegionsSettings
from motionkit_regions.small import SeenImages, ShapesPolicy

_INSIDE = 4.0  # weight of a pixel inside: most of an image is outside

_CAPTIONS, _PART = 2000, 64
"""Training regions whose captions are read, and how many at once, as their pictures are read too."""

_MOST = 4096  # words that a policy has at most, the most frequent ones
_WORD = re.compile(r"[a-z]{1,40}")

_ABSENT = 0.5  # weight of the mask loss of absent objects


def supervised_loss(
    policy: RegionPolicy,
    seen: Any,  # N images, see `RegionPolicy.see`
    masks: Tensor,  # [N, h, w] bool
    captions: Sequence[str],  # N texts
    *,
    world: World | None = None,  # processes that share a batch; each returns its share of the loss
) -> Tensor:
    """Return the mean cross-entropy of the words, plus twice that of the pixels, plus the Dice loss of the masks.

    Words that the policy does not know are left out, as padding is.
    """
    world = world or OneProcess()
    words = policy.score_words(seen, masks, policy.encode(captions))
    cross_entropy = -words.log_prob.sum() / world.sum(words.mask.sum()).clamp(min=1)
    return cross_entropy + mask_loss(policy.draw(seen, policy.prompts(seen, captions)), masks).mean() / world.size


def unknown_words(policy: RegionPolicy, captions: Sequence[str], world: World | None = None) -> dict[str, float]:
    """Return the share of the captions' words that a policy does not know, by metric; nothing if it does not say."""
    known = policy.known_words(captions)
    return {} if known is None else mean_over({"supervised/unknown_words": 1.0 - known}, world or OneProcess())


def mask_loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Return ``[N]`` of logits and masks ``[N, h, w]``: twice the cross-entropy of the pixels plus the Dice loss."""
    target = masks.to(logits.dtype)
    inside = logits.new_tensor(_INSIDE)
    pixels = F.binary_cross_entropy_with_logits(logits, target, pos_weight=inside, reduction="none").mean((1, 2))
    drawn = logits.sigmoid()
    both, either = (drawn * target).sum((1, 2)), drawn.sum((1, 2)) + target.sum((1, 2))
    return 2 * pixels + 1 - (2 * both + 1) / (either + 1)


def words_of(data: RegionDataset) -> tuple[str, ...]:
    """Return the words of the captions of the first training regions, the most frequent ones first."""
    counts: Counter[str] = Counter()
    number = min(_CAPTIONS, data.count("train"))
    for start in range(0, number, _PART):
        for caption in data.regions("train", np.arange(start, min(start + _PART, number))).captions:
            counts.update(_WORD.findall(caption.lower()))
    if not counts:
        raise MotionkitError(
            f"the captions of {data.name} have no words of the letters a to z.",
            why="the small policy learns words from the captions that it is trained on.",
            fix="--policy sa2va of sa2va-rl reads other scripts.",
        )
    return tuple(word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST])


def regions_of_part(part: NDArray[np.int64], size: int, step: int, seed: int, *marks: int) -> NDArray[np.int64]:
    """Return `size` regions of a part, each once before any comes again; of a part with fewer, some twice."""
    epoch, place = divmod((step - 1) * size, max(1, len(part) // size) * size)
    order = np.random.default_rng((seed, epoch, *marks)).permutation(part)
    return np.resize(order[place:], size)


class PretrainRegions:
    """Trains a region policy on captions and masks; see `motionkit.training.base.Trainer`."""

    shape_keys: ClassVar[tuple[str, ...]] = ("dataset", "model", "train", "optim", "seed", "run.num_steps")

    figures: ClassVar[tuple[Figure, ...]] = (LOSS,)

    def __init__(self, settings: PretrainRegionsSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Open the data and make the network."""
        settings = self.settings
        self.share = share_of(settings.train.batch_size, self.world, what="regions", flag="--batch-size")
        self.device = set_up(settings, small=True)
        self.data: RegionDataset = settings.dataset.build()
        model = settings.model
        first = self.data.regions("train", np.zeros(1, np.int64))
        for name, side, theirs in (
            ("image_size", model.image_size, first.images[0].shape[:2]),
            ("mask_size", model.mask_size, first.masks[0].shape),
        ):
            if theirs != (side, side) and not model.resize:
                square = f"--set model.{name}={theirs[0]}, or " if theirs[0] == theirs[1] else ""
                raise MotionkitError(
                    f"model.{name} is {side} and that of {self.data.name} is {theirs[0]} x {theirs[1]}.",
                    fix=f"{square}--set model.resize=true squeezes images and masks to the policy's sizes.",
                )
        words = self.data.words or words_of(self.data)
        self.part = self.data.captioned("train")
        if self.part is not None and not len(self.part):
            raise MotionkitError(
                f"no training region of {self.data.name} has a caption.",
                fix="give more of them one (--dataset.captioned).",
            )
        self.policy = ShapesPolicy(model, words, device=self.device)
        self.inputs = inputs_of({"dataset": self.data})

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        parts = {
            name: sum(parameter.numel() for parameter in part.parameters())
            for name, part in self.policy.network.named_children()
        }
        return {
            "parameters": ", ".join(f"{name} {count:,}" for name, count in parts.items()),
            "the policy sees": self.policy.sees,
            "words": f"{len(self.policy.words.words):,}",
            "steps": f"{self.settings.run.num_steps} of {self.settings.train.batch_size} regions",
            "device": describe_device(self.device),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings, policy = self.settings, self.policy
        optim, total = settings.optim, settings.run.num_steps
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, total, settings.train.final_rate)
        learner = Learner(policy, optim, rate, world=self.world)
        interval = settings.train.val_every if self.data.count("val") else 0

        def begin() -> None:
            if self.world.main:
                policy.save(run.artifact(ARTIFACT), tensors=None)
                trained_pictures(self.data).write(run.artifact(ARTIFACT))

        def step_fn(step: int) -> Mapping[str, float]:
            learner.zero_grad()
            loss, unknown = self._loss(self._captioned(step), self.share, self.world)
            loss.backward()
            return sum_over({"loss/total": float(loss.detach())}, self.world) | unknown | learner.descend(step - 1)

        done = fit(
            run, settings, learner, step_fn, measure=self._validate if interval else None, every=interval,
            worth=(lambda figures: -figures["val/loss"]) if settings.train.best else None, begin=begin,
        )  # fmt: skip
        if done is not None and self.world.main:
            if done.best.tensors:
                policy.load_tensors(done.best.tensors)
            # float16 halves the file; its rounding is far below the noise of training.
            policy.save(
                run.artifact(ARTIFACT), tensors={name: tensor.half() for name, tensor in policy.tensors().items()}
            )
        return {}

    def _captioned(self, step: int) -> NDArray[np.int64]:
        """Return the regions of a step whose captions may be read, each once before any comes again."""
        size = self.settings.train.batch_size
        if self.part is None:
            return (np.arange(size) + (step - 1) * size) % self.data.count("train")
        return regions_of_part(self.part, size, step, self.settings.seed)

    def _loss(
        self, all_index: NDArray[np.int64], share: slice, world: World, split: Split = "train"
    ) -> tuple[Tensor, dict[str, float]]:
        """Return this process's share of the loss of captions, masks and absent objects, and `unknown_words`."""
        policy, index = self.policy, all_index[share]
        seen, masks, captions = self._open(split, index)
        loss = supervised_loss(policy, seen, masks, captions, world=world)
        unknown = unknown_words(policy, captions, world)
        count = round(self.settings.train.absent * len(all_index))  # the first ones, whichever process has them
        if not count or not names_absent(self.data):
            return loss, unknown
        first = np.arange(len(all_index))[share]
        absent = look_up(self.data, split, index[first < count]).absent
        named = {place: text for place, text in enumerate(absent) if text}
        total = int(world.sum(torch.tensor(len(named), device=self.device)))
        if not named:
            return loss, unknown
        rows = torch.tensor(list(named), device=self.device)
        selected = seen.select(rows)
        drawn = policy.draw(selected, policy.prompts(selected, list(named.values())))
        return loss + _ABSENT * mask_loss(drawn, torch.zeros_like(masks[rows])).sum() / total, unknown

    @torch.no_grad()
    def _validate(self, step: int) -> dict[str, float]:
        index = np.arange(min(self.settings.train.val_regions, self.data.count("val")))
        return {"val/loss": float(self._loss(index, slice(None), OneProcess(), "val")[0])}

    def _open(self, split: Split, index: NDArray[np.int64]) -> tuple[SeenImages, Tensor, tuple[str, ...]]:
        """Read and encode regions, with gradients."""
        regions = self.data.regions(split, index)
        seen = self.policy.see(regions.images)
        return seen, masks_at(regions.masks, self.policy.mask_size).to(self.device), regions.captions
