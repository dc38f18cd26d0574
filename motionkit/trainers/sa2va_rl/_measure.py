"""Held-out figures of a region policy: both loops closed by itself, and by the policy as it started."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.metrics import region_iou
from motionkit.metrics.meteor import Meteor
from motionkit.policies.base import RegionPolicy
from motionkit.trainers.sa2va_rl._noise import RowNoise
from motionkit.trainers.sa2va_rl.loops.base import Task, Weights

NAMES = ("cycle_iou", "judge_iou", "meteor", "referring_iou")
_SEED = 20_011
_RESAMPLES = 2000


@dataclass(frozen=True)
class RegionFigures:
    """Scores of each held-out region.

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
    """Measure a policy on held-out regions: one sampled caption of each, the same draws every time."""
    noise = RowNoise((_SEED,), len(task.captions), device=policy.device)
    meteor = Meteor()
    said = policy.sample_captions(task.seen, task.masks, temperature=temperature, noise=noise.uniform(policy.longest))
    own = policy.draw(task.seen, policy.prompts(task.seen, said.texts)) > 0
    with start():
        judged = policy.draw(task.seen, policy.prompts(task.seen, said.texts)) > 0
    referred = policy.draw(task.seen, policy.prompts(task.seen, task.captions)) > 0
    wanted = [[text] for text in task.captions]
    scores = {
        "cycle_iou": region_iou(own, task.masks),
        "judge_iou": region_iou(judged, task.masks),
        "meteor": torch.tensor([meteor(*pair) for pair in zip(said.texts, wanted, strict=True)]),
        "referring_iou": region_iou(referred, task.masks),
    }
    arrays = {name: values.double().cpu().numpy() for name, values in scores.items()}
    return RegionFigures(arrays, said.texts, own.cpu().numpy())


def change_of(before: NDArray[np.float64], after: NDArray[np.float64], seed: int = 0) -> dict[str, object]:
    """Return a score before and after on the same regions, with the 95 % bootstrap interval of the change."""
    gains = after - before
    draws = np.random.default_rng(seed).integers(len(gains), size=(_RESAMPLES, len(gains)))
    low, high = np.quantile(gains[draws].mean(1), (0.025, 0.975))
    return {
        "before": float(before.mean()), "after": float(after.mean()), "delta": float(gains.mean()),
        "ci95": [float(low), float(high)], "n": len(gains),
    }  # fmt: skip


def as_it_is() -> nullcontext[None]:
    """Leave the weights as they are."""
    return nullcontext()
