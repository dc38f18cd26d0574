"""Figures of a region policy on a task: both loops closed by itself, and by the policy as it started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.metrics.paired import compare
from motionkit.rl import RowNoise
from motionkit_regions.datasets.base import Regions
from motionkit_regions.evaluation.known import Known
from motionkit_regions.meteor.score import Meteor
from motionkit_regions.policy import RegionPolicy
from motionkit_regions.scores import cider_d

Weights = Callable[[], AbstractContextManager[None]]
"""Context in which the network has other weights."""

SEED = 20_011
_RESAMPLES = 2000


@dataclass(frozen=True)
class Task:
    """N regions, with the policy's view of their images."""

    seen: Any  # see `RegionPolicy.see`
    masks: Tensor  # [N, h, w] bool, at the size of the policy's masks
    captions: tuple[str, ...]  # n texts
    originals: Sequence[NDArray[np.bool_]] = ()  # N arrays [H, W] bool, the data's masks; empty if nothing is measured
    others: Tensor | None = None  # [N, K, h, w] bool, masks of the other objects of each image, padded by empty ones

    def __len__(self) -> int:
        return len(self.captions)

    def repeated(self, times: int) -> Task:
        """Return every region so many times, one after the other, to be trained on."""
        rows = torch.arange(len(self.captions), device=self.masks.device).repeat_interleave(times)
        texts = tuple(text for text in self.captions for _ in range(times))
        others = None if self.others is None else self.others[rows]
        return Task(self.seen.select(rows), self.masks[rows], texts, others=others)


@torch.no_grad()
def open_task(policy: RegionPolicy, regions: Regions) -> Task:
    """Encode the images of regions."""
    masks = masks_at(regions.masks, policy.mask_size).to(policy.device)
    others = _others_at(regions.others, policy.mask_size).to(policy.device) if regions.others else None
    return Task(policy.see(regions.images), masks, regions.captions, regions.masks, others)


def _others_at(others: Sequence[NDArray[np.bool_]], size: tuple[int, int]) -> Tensor:
    """Return ``[N, K, h, w]`` bool, padded with empty masks to the largest number of objects."""
    padded = torch.zeros(len(others), max(map(len, others)), *size, dtype=torch.bool)
    for place, image_masks in enumerate(others):
        if len(image_masks):
            padded[place, : len(image_masks)] = masks_at(list(image_masks), size)
    return padded


def masks_at(masks: Sequence[NDArray[np.bool_]], size: tuple[int, int]) -> Tensor:
    """Resize masks to ``[N, h, w]`` bool.

    A cell is inside if at least half of it is. A region that covers half of no cell keeps the cells with the largest
    cover, so that it does not vanish.

    Args:
        masks: N arrays ``[H, W]`` bool.
        size: ``(h, w)``.
    """
    return torch.stack([_mask_at(torch.from_numpy(mask), size) for mask in masks])


def _mask_at(mask: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(mask.shape) == size:
        return mask
    covered = F.adaptive_avg_pool2d(mask[None, None].float(), size)[0, 0]
    top = covered.max()
    return covered >= torch.clamp(top, min=1e-6, max=0.5)


def overlap(
    logits: Tensor,  # [N, h, w], resized to the size of each mask (bilinear, antialiased); above 0 is inside
    originals: Sequence[NDArray[np.bool_]],  # n arrays [H, W] bool
) -> Tensor:
    """Return ``[N, 2]`` int64 on the CPU: pixels in both masks and in either, at the size that each mask has."""
    counts = []
    for mask_logits, original in zip(logits.detach(), originals, strict=True):
        target = torch.from_numpy(original).to(mask_logits.device)
        if mask_logits.shape != target.shape:
            mask_logits = F.interpolate(mask_logits[None, None].float(), target.shape, mode="bilinear", antialias=True)[
                0, 0
            ]
        mask = mask_logits > 0
        counts.append(torch.stack([(mask & target).sum(), (mask | target).sum()]))
    return torch.stack(counts).cpu()


def iou_of(counts: Tensor) -> Tensor:
    """Return the intersection over union ``[N]`` float64 of `overlap`; 1 if both masks are empty."""
    both, either = counts.double().unbind(1)
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


Judge = Callable[[Sequence[str]], Tensor]
"""Draws masks of captions of a task's regions: N texts to logits ``[N, h, w]``."""


@dataclass(frozen=True)
class RegionFigures:
    """Scores of each region, of greedy captions or of sampled ones."""

    # [R] by name. Of the captions: ``cycle_iou`` and ``judge_iou``, by the policy's own mask of a caption and by that
    # of the policy as it started; ``meteor``, ``cider`` and ``words``; the scores of `Truth` if the data know their
    # scenes. Of the data's captions: ``referring_iou``. ``no_target``: 1 if nothing is drawn of an absent object, NaN
    # if none is known.
    scores: Mapping[str, NDArray[np.float64]]
    captions: list[str]
    masks: NDArray[np.bool_]  # [R, h, w] bool, the policy's own masks of them

    @property
    def means(self) -> dict[str, float]:
        """Mean of each score over the regions that have it."""
        return {name: float(np.nanmean(values)) for name, values in self.scores.items() if np.isfinite(values).any()}


@torch.no_grad()
def measure(
    policy: RegionPolicy, task: Task, start: Weights, known: Known | None = None, *, temperature: float = 0.0
) -> RegionFigures:
    """Measure a policy on held-out regions: one caption of each, and masks of the data's captions.

    Masks are compared at the size that they have in the data; both empty is 1.

    Args:
        policy: The policy.
        task: The regions, with their original masks.
        start: Puts the weights in place that judge captions.
        known: Ground truth of the regions, if the data have it.
        temperature: Of the captions; 0 takes the likeliest words. The same draws every time.
    """

    def judge(texts: Sequence[str]) -> Tensor:
        with start():
            return drawn(policy, task, texts)

    noise = RowNoise((SEED,), len(task), device=policy.device).uniform(policy.longest) if temperature else None
    captioned = spoken(policy, task, judge, temperature=temperature, noise=noise)
    scores = {**captioned.scores, **worded(captioned.captions, task.captions, known)}
    scores["referring_iou"] = iou_of(overlap(drawn(policy, task, task.captions), task.originals)).numpy()
    if known is not None:
        scores["no_target"] = nothing_drawn(policy, task, known.absent)
    return RegionFigures(scores, captioned.captions, captioned.masks)


@torch.no_grad()
def spoken(
    policy: RegionPolicy,
    task: Task,  # the regions, with their original masks
    judge: Judge,  # draws the same captions
    *,
    temperature: float,  # of the captions; 0 takes the likeliest words
    noise: Tensor | None = None,  # see `RegionPolicy.sample_captions`
) -> RegionFigures:
    """Caption each region and draw the caption; returns ``cycle_iou`` and ``judge_iou``."""
    captions = policy.sample_captions(task.seen, task.masks, temperature=temperature, noise=noise)
    logits = drawn(policy, task, captions.texts)
    scores = {
        "cycle_iou": iou_of(overlap(logits, task.originals)).numpy(),
        "judge_iou": iou_of(overlap(judge(captions.texts), task.originals)).numpy(),
    }
    return RegionFigures(scores, captions.texts, (logits > 0).cpu().numpy())


def worded(
    captions: Sequence[str],
    references: Sequence[str],  # the data's, over which CIDEr counts n-grams
    known: Known | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Return the scores ``[R]`` of captions as texts: ``meteor``, ``cider``, ``words`` and those of the truth."""
    meteor = Meteor()
    scores = {
        "meteor": np.array([meteor(text, [reference]) for text, reference in zip(captions, references, strict=True)]),
        "cider": cider_d(captions, [[reference] for reference in references]),
        "words": np.array([len(text.split()) for text in captions], np.float64),
    }
    return scores | (known.truth.score(captions) if known is not None and known.truth is not None else {})


@torch.no_grad()
def nothing_drawn(policy: RegionPolicy, task: Task, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return ``[N]``: 1 if no pixel is drawn of a text, else 0; NaN for an empty text."""
    nothing = ~(drawn(policy, task, texts) > 0).flatten(1).any(1).cpu().numpy()
    return np.where(np.array([bool(text) for text in texts]), nothing.astype(np.float64), np.nan)


@torch.no_grad()
def drawn(policy: RegionPolicy, task: Task, texts: Sequence[str]) -> Tensor:
    """Return the policy's mask logits ``[N, h, w]`` of texts about a task's images."""
    return policy.draw(task.seen, policy.prompts(task.seen, texts))


def change_of(before: NDArray[np.float64], after: NDArray[np.float64], seed: int = 0) -> dict[str, object]:
    """Return a score before and after on the same regions, with the 95 % bootstrap interval of the change."""
    return compare(before[:, None], after[:, None], seed=seed, resamples=_RESAMPLES).document()


def as_it_is() -> nullcontext[None]:
    """Leave the weights as they are."""
    return nullcontext()
