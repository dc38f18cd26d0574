"""Figures of a region policy on a task: both loops closed by itself, and by the policy as it started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.evaluation._paired import compare
from motionkit.evaluation.regions._known import Known
from motionkit.evaluation.regions._task import Task, Weights, iou_of, overlap
from motionkit.metrics import cider_d
from motionkit.metrics.meteor import Meteor
from motionkit.policies.base import RegionPolicy
from motionkit.rl import RowNoise

SEED = 20_011
_RESAMPLES = 2000

Judge = Callable[[Sequence[str]], Tensor]
"""Draws masks of captions of a task's regions: N texts to logits ``[N, h, w]``."""


@dataclass(frozen=True)
class RegionFigures:
    """Scores of each region, of captions of one kind: of the likeliest words (greedy), or sampled.

    Attributes:
        scores: ``[R]`` by name. Of the captions: ``cycle_iou`` and ``judge_iou``, by the policy's own mask of a caption
            and by that of the policy as it started; ``meteor``, ``cider`` and ``words``; with data that know what their
            images show what `motionkit.evaluation.regions._truth.Truth` finds. Of no caption of its own: ``referring_iou``, of
            the data's captions; ``no_target``, 1 where nothing is drawn of an absent object, NaN where none is known.
        captions: The captions.
        masks: ``[R, h, w]`` bool, the policy's own masks of them.
    """

    scores: Mapping[str, NDArray[np.float64]]
    captions: list[str]
    masks: NDArray[np.bool_]

    @property
    def means(self) -> dict[str, float]:
        """Mean of each score over the regions that have it."""
        return {name: float(np.nanmean(own)) for name, own in self.scores.items() if np.isfinite(own).any()}


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
        known: What is known of the regions.
        temperature: Of the captions; 0 takes the likeliest words. The same draws every time.
    """

    def judge(texts: Sequence[str]) -> Tensor:
        with start():
            return drawn(policy, task, texts)

    noise = RowNoise((SEED,), len(task), device=policy.device).uniform(policy.longest) if temperature else None
    found = spoken(policy, task, judge, temperature=temperature, noise=noise)
    scores = {**found.scores, **worded(found.captions, task.captions, known)}
    scores["referring_iou"] = iou_of(overlap(drawn(policy, task, task.captions), task.originals)).numpy()
    if known is not None:
        scores["no_target"] = nothing_drawn(policy, task, known.absent)
    return RegionFigures(scores, found.captions, found.masks)


@torch.no_grad()
def spoken(
    policy: RegionPolicy, task: Task, judge: Judge, *, temperature: float, noise: Tensor | None = None
) -> RegionFigures:
    """Caption each region and let the caption be drawn.

    Args:
        policy: The policy.
        task: The regions, with their original masks.
        judge: Draws the same captions.
        temperature: Of the captions; 0 takes the likeliest words.
        noise: See `RegionPolicy.sample_captions`.

    Returns:
        ``cycle_iou`` and ``judge_iou``.
    """
    said = policy.sample_captions(task.seen, task.masks, temperature=temperature, noise=noise)
    own = drawn(policy, task, said.texts)
    scores = {
        "cycle_iou": iou_of(overlap(own, task.originals)).numpy(),
        "judge_iou": iou_of(overlap(judge(said.texts), task.originals)).numpy(),
    }
    return RegionFigures(scores, said.texts, (own > 0).cpu().numpy())


def worded(
    captions: Sequence[str], wanted: Sequence[str], known: Known | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the scores ``[R]`` of captions as texts: ``meteor``, ``cider``, ``words`` and those of the truth.

    Args:
        captions: R captions.
        wanted: The data's; n-grams are weighted by how many of these hold them (`motionkit.metrics.cider_d`).
        known: What is known of the regions.
    """
    meteor = Meteor()
    scores = {
        "meteor": np.array([meteor(text, [one]) for text, one in zip(captions, wanted, strict=True)]),
        "cider": cider_d(captions, [[one] for one in wanted]),
        "words": np.array([len(text.split()) for text in captions], np.float64),
    }
    return scores | (known.truth.score(captions) if known is not None and known.truth is not None else {})


@torch.no_grad()
def nothing_drawn(policy: RegionPolicy, task: Task, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return ``[N]``: 1 where no pixel is drawn of a text, 0 where one is, NaN of an empty text."""
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
