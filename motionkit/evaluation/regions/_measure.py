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
from motionkit.evaluation.regions._task import Task, Weights, iou_of, overlap
from motionkit.metrics.meteor import Meteor
from motionkit.policies.base import RegionPolicy
from motionkit.rl import RowNoise

NAMES = ("cycle_iou", "judge_iou", "meteor", "referring_iou")
SEED = 20_011
_RESAMPLES = 2000

Judge = Callable[[Sequence[str]], Tensor]
"""Draws masks of captions of a task's regions: N texts to logits ``[N, h, w]``."""


@dataclass(frozen=True)
class RegionFigures:
    """Scores of each region.

    Attributes:
        scores: ``[R]`` by name: ``cycle_iou`` and ``judge_iou`` of a sampled caption, by the policy's own mask of it
            and by that of the policy as it started; ``meteor`` of that caption; ``referring_iou`` of the data's.
        captions: The sampled captions.
        masks: ``[R, h, w]`` bool, the policy's own masks of them.
    """

    scores: Mapping[str, NDArray[np.float64]]
    captions: list[str]
    masks: NDArray[np.bool_]

    @property
    def means(self) -> dict[str, float]:
        """Mean of each score."""
        return {name: float(values.mean()) for name, values in self.scores.items()}


@torch.no_grad()
def measure(policy: RegionPolicy, task: Task, start: Weights, *, temperature: float = 1.0) -> RegionFigures:
    """Measure a policy on held-out regions: one sampled caption of each, the same draws every time.

    Masks are compared at the size that they have in the data; both empty is 1.
    """

    def judge(texts: Sequence[str]) -> Tensor:
        with start():
            return drawn(policy, task, texts)

    noise = RowNoise((SEED,), len(task), device=policy.device).uniform(policy.longest)
    found = spoken(policy, task, judge, temperature=temperature, noise=noise)
    referring = iou_of(overlap(drawn(policy, task, task.captions), task.originals)).numpy()
    return RegionFigures({**found.scores, "referring_iou": referring}, found.captions, found.masks)


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
        All scores but ``referring_iou``.
    """
    meteor = Meteor()
    said = policy.sample_captions(task.seen, task.masks, temperature=temperature, noise=noise)
    own = drawn(policy, task, said.texts)
    pairs = zip(said.texts, task.captions, strict=True)
    scores = {
        "cycle_iou": iou_of(overlap(own, task.originals)).numpy(),
        "judge_iou": iou_of(overlap(judge(said.texts), task.originals)).numpy(),
        "meteor": np.array([meteor(text, [wanted]) for text, wanted in pairs]),
    }
    return RegionFigures(scores, said.texts, (own > 0).cpu().numpy())


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
