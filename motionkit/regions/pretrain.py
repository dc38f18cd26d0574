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

from motionkit.contracts.dataset import NamesAbsent, RegionDataset, Split, captioned_part, trained_pictures
from motionkit.contracts.policy import REGION_ARTIFACT as ARTIFACT
from motionkit.contracts.policy import RegionPolicy
from motionkit.errors import MotionkitError
from motionkit.regions.evaluation.known import look_up
from motionkit.regions.evaluation.measure import masks_at
from motionkit.regions.pretrain_settings import PretrainRegionsSettings
from motionkit.regions.small import SeenImages, ShapesPolicy
from motionkit.runs import Run
from motionkit.training.base import LOSS, Figure, inputs_of
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import Best, Learner, cosine_rate
from motionkit.training.steps import Parts, restore, run_steps
from motionkit.training.world import OneProcess, World, share_of, sum_over

_INSIDE = 4.0
"""Weight of a pixel inside: most of an image is outside."""


def supervised_loss(
    policy: RegionPolicy, seen: Any, masks: Tensor, captions: Sequence[str], *, world: World | None = None
) -> Tensor:
    """Return the mean cross-entropy of the words, plus twice that of the pixels, plus the Dice loss of the masks.

    Args:
        policy: The policy.
        seen: What it saw of N images.
        masks: ``[N, h, w]`` bool.
        captions: N texts.
        world: The processes that share a batch, N regions each: every one returns its share of the loss of the batch.
    """
    world = world or OneProcess()
    words = policy.score_words(seen, masks, policy.encode(captions))
    said = -words.log_prob.sum() / world.sum(words.mask.sum()).clamp(min=1)
    return said + mask_loss(policy.draw(seen, policy.prompts(seen, captions)), masks).mean() / world.size


def mask_loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Return ``[N]``: twice the mean cross-entropy of the pixels plus the Dice loss.

    Args:
        logits: ``[N, h, w]``.
        masks: ``[N, h, w]`` bool.
    """
    wanted = masks.to(logits.dtype)
    inside = logits.new_tensor(_INSIDE)
    pixels = F.binary_cross_entropy_with_logits(logits, wanted, pos_weight=inside, reduction="none").mean((1, 2))
    drawn = logits.sigmoid()
    both, either = (drawn * wanted).sum((1, 2)), drawn.sum((1, 2)) + wanted.sum((1, 2))
    return 2 * pixels + 1 - (2 * both + 1) / (either + 1)


# What a region policy learns from images and regions without captions: to see, to draw, and to find again.


_PATCH = 8  # pixels along a square of the small image that a word of the image has to tell
_PIXELS = 4.0  # weight of the squared error of pixels, beside the loss of a mask


class Eyes:
    """Losses without captions.

    A word of the image has to hold its pixels: a fixed random rotation of its features is compared with them. An object
    that is pointed at in one image is found again in another, which has the same squares in another order: only what it
    looks like tells where it went. And what is at a place is drawn, where the region is pointed at in an empty image:
    only its place tells what is meant.

    Args:
        policy: The policy; its language model reads the region where a caption would stand.
        seed: Of the rotation.
    """

    def __init__(self, policy: ShapesPolicy, seed: int) -> None:
        self._policy = policy
        settings = policy.settings
        self._side = settings.image_size // 16 * _PATCH
        wide = 4 * 2 * settings.vision
        draw = torch.Generator().manual_seed(seed)
        rotation, _ = torch.linalg.qr(torch.randn(max(wide, 3 * _PATCH**2), wide, generator=draw))
        self._rotation = rotation[: 3 * _PATCH**2].to(policy.device)

    def loss(self, images: Sequence[NDArray[np.uint8]], masks: Tensor, key: tuple[int, ...]) -> Tensor:
        """Return the loss of N images ``[H, W, 3]`` with a region ``[N, h, w]`` of each.

        Args:
            images: The images.
            masks: The regions, on the CPU.
            key: What the order of the squares follows from.
        """
        policy = self._policy
        seen = policy.see(images)
        told = F.mse_loss(seen.cells @ self._rotation.T, self.pixels(images).to(policy.device))
        moved, places = self.moved(images, masks, key)
        again = policy.see(moved)
        wanted = places.to(policy.device)
        looks = mask_loss(policy.draw(again, policy.point(again, masks, seen)), wanted).mean()
        empty = policy.see([_empty(images)]).select(torch.zeros(len(images), dtype=torch.int64, device=policy.device))
        place = mask_loss(policy.draw(again, policy.point(again, places, empty)), wanted).mean()
        return _PIXELS * told + looks + place

    def moved(
        self, images: Sequence[NDArray[np.uint8]], masks: Tensor, key: tuple[int, ...]
    ) -> tuple[list[NDArray[np.uint8]], Tensor]:
        """Return images and masks whose squares, a word of the image each, are in another order."""
        count = self._side // _PATCH
        draw = np.random.default_rng(key)
        orders = np.stack([draw.permutation(count**2) for _ in images])
        return list(_ordered(np.stack(images), orders)), torch.from_numpy(_ordered(masks.numpy(), orders))

    def pixels(self, images: Sequence[NDArray[np.uint8]]) -> Tensor:
        """Return ``[N, V, P]``: pixels from -1 to 1 of the squares of the small images, in the order of words."""
        found = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 127.5 - 1.0
        small = F.adaptive_avg_pool2d(found, self._side)
        return F.unfold(small, _PATCH, stride=_PATCH).transpose(1, 2)


def _empty(images: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return an image of one colour: the median of all pixels."""
    middle = np.median(np.stack(images), axis=(0, 1, 2)).astype(np.uint8)
    return np.broadcast_to(middle, images[0].shape).copy()


def _ordered(pictures: NDArray[Any], orders: NDArray[np.int64]) -> NDArray[Any]:
    """Return pictures ``[N, H, W, ...]`` with their squares in the orders ``[N, K K]``."""
    count = round(orders.shape[1] ** 0.5)
    n, height, width, *rest = pictures.shape
    squares = pictures.reshape(n, count, height // count, count, width // count, *rest)
    flat = np.moveaxis(squares, 3, 2).reshape(n, count**2, height // count, width // count, *rest)
    found = flat[np.arange(n)[:, None], orders].reshape(n, count, count, height // count, width // count, *rest)
    return np.ascontiguousarray(np.moveaxis(found, 2, 3).reshape(pictures.shape))


def pointed_at(
    masks: Sequence[NDArray[np.bool_]], others: Sequence[NDArray[np.bool_]], key: tuple[int, ...]
) -> list[NDArray[np.bool_]]:
    """Return the mask of one of all objects of each image, drawn by `key`."""
    draw = np.random.default_rng(key)
    chosen = []
    for place, mask in enumerate(masks):
        every = np.concatenate([mask[None], others[place]]) if others else mask[None]
        chosen.append(every[int(draw.integers(len(every)))])
    return chosen


# The words of a dataset's captions, for a policy that is to say them.


_CAPTIONS, _PART = 2000, 64
"""Training regions whose captions are read, and how many at once: files read their pictures too."""

_MOST = 4096
"""Words that a policy has at most, the most frequent ones."""

_WORD = re.compile(r"[a-z]{1,40}")


def words_of(data: RegionDataset) -> tuple[str, ...]:
    """Return the words of the captions of the first training regions, the most frequent ones first.

    Raises:
        MotionkitError: No caption has a word of the letters a to z (exit code 2).
    """
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
    return tuple(word for word, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_MOST])


# `motionkit pretrain regions`: the trainer.


_ABSENT = 0.5  # weight of the mask of what an image does not show


class PretrainRegions:
    """Trains a region policy on captions and masks; see `motionkit.training.base.Trainer`.

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
        """Train; see `motionkit.training.base.Trainer.train`."""
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
