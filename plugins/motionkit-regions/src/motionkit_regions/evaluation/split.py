"""Measures region policies on a split, in batches of regions.

Policies are compared with the same draws; and sampled captions also at equal entropy: at the temperature at which the
words of the one have the same mean entropy as those of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.motion.corpus.ids import Split
from motionkit.rl import RowNoise
from motionkit_regions.datasets.base import RegionDataset, Regions
from motionkit_regions.evaluation.known import Known
from motionkit_regions.evaluation.measure import (
    SEED,
    RegionFigures,
    Task,
    drawn,
    iou_of,
    nothing_drawn,
    open_task,
    overlap,
    spoken,
    worded,
)
from motionkit_regions.policy import RegionPolicy

LOWEST, HIGHEST = 0.02, 10.0
"""Range of the search, in temperatures."""

_NEAR = 1e-3  # relative width of the interval at which the search ends

_STATES = 200  # number of regions, the first ones, on which the temperature of equal entropy is found

Said = Sequence[tuple[Task, Sequence[str]]]
"""Tasks with a caption of each of their regions."""


@dataclass(frozen=True)
class SplitFigures:
    """Figures of a policy on every region of a split."""

    counts: NDArray[np.int64]  # [R, 2] int64, pixels in both masks and in either, of the data's captions
    greedy: RegionFigures  # scores of captions of the likeliest words, with ``referring_iou`` and ``no_target``
    sampled: RegionFigures  # scores of sampled captions
    references: Sequence[str]  # r captions of the data


@dataclass(frozen=True)
class EqualEntropy:
    """A policy at the temperature at which its words have the entropy of another policy's."""

    temperature: float
    nats: float  # mean entropy of a word of both policies
    sampled: RegionFigures  # scores of captions that are sampled at it


@torch.no_grad()
def measure_split(
    policies: Sequence[RegionPolicy],  # the policies; one may be the judge itself
    judge: RegionPolicy,  # the policy that draws the captions of all of them
    data: RegionDataset,
    split: Split,
    index: NDArray[np.int64],  # [R] regions of it
    known: Known,
    *,
    batch: int = 32,  # regions at once; changes memory and time only
    temperature: float = 1.0,  # of the sampled captions
    seed: int = 0,  # of their draws; 0 takes those of `sa2va-rl`'s held-out figures
    progress: Callable[[int], None] | None = None,  # called with the number of regions done by one policy
) -> list[SplitFigures]:
    """Measure policies on the same regions with the same draws."""
    parts: list[list[_Part]] = [[] for _ in policies]
    references: list[str] = []
    for share, regions in _batches(data, split, index, batch):
        references += regions.captions
        tasks: dict[int, Task] = {}
        for policy in (*policies, judge):
            if id(policy) not in tasks:  # the judge may be one of them
                tasks[id(policy)] = open_task(policy, regions)
        judged = partial(drawn, judge, tasks[id(judge)])
        for place, policy in enumerate(policies):
            task = tasks[id(policy)]
            noise = _draws(policy, len(index), share, seed)
            parts[place].append(
                _Part(
                    overlap(drawn(policy, task, task.captions), task.originals),
                    spoken(policy, task, judged, temperature=0.0),
                    spoken(policy, task, judged, temperature=temperature, noise=noise),
                    nothing_drawn(policy, task, known.absent[share]),
                )
            )
            if progress is not None:
                progress(len(task))
    return [_joined(policy_parts, references, known) for policy_parts in parts]


@torch.no_grad()
def measure_equal_entropy(
    policy: RegionPolicy,
    other: RegionPolicy,
    captions: Sequence[str],
    data: RegionDataset,
    split: Split,
    index: NDArray[np.int64],
    known: Known,
    *,
    batch: int = 32,
    temperature: float = 1.0,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> EqualEntropy:
    """Measure a policy at the temperature at which its words have the entropy of another policy's.

    The temperature is found by bisection on the mean entropy of a word, over the captions that the other one sampled.

    Args:
        policy: The policy, such as one before training. It judges its own captions.
        other: The policy whose entropy is met.
        captions: ``[R]`` captions that `other` sampled.
        data: The data.
        split: Their split.
        index: ``[R]`` regions of the split.
        known: Ground truth of these regions.
        batch: Regions at once.
        temperature: That `captions` were sampled at.
        seed: Of the draws; those of `measure_split`.
        progress: Called with the number of regions done.
    """
    first = list(_batches(data, split, index[:_STATES], batch))
    theirs = word_entropy(
        other, [(open_task(other, regions), captions[share]) for share, regions in first], temperature
    )  # fmt: skip
    tasks = [(open_task(policy, regions), captions[share]) for share, regions in first]
    equal = equal_entropy(lambda value: word_entropy(policy, tasks, value), theirs)
    nats = word_entropy(policy, tasks, equal)
    parts, references = [], list[str]()
    for share, regions in _batches(data, split, index, batch):
        references += regions.captions
        task = open_task(policy, regions)
        noise = _draws(policy, len(index), share, seed)
        parts.append(spoken(policy, task, partial(drawn, policy, task), temperature=equal, noise=noise))
        if progress is not None:
            progress(len(task))
    return EqualEntropy(equal, nats, _of_captions(parts, references, known))


def _batches(
    data: RegionDataset, split: Split, index: NDArray[np.int64], batch: int
) -> Iterator[tuple[slice, Regions]]:
    for start in range(0, len(index), batch):
        share = slice(start, min(start + batch, len(index)))
        yield share, data.regions(split, index[share])


def _draws(policy: RegionPolicy, count: int, share: slice, seed: int) -> Tensor:
    return RowNoise((SEED + seed,), count, share, policy.device).uniform(policy.longest)


@dataclass(frozen=True)
class _Part:
    counts: Tensor
    greedy: RegionFigures
    sampled: RegionFigures
    nothing: NDArray[np.float64]


def _joined(parts: Sequence[_Part], references: Sequence[str], known: Known) -> SplitFigures:
    counts = torch.cat([part.counts for part in parts])
    once: Mapping[str, NDArray[np.float64]] = {
        "referring_iou": iou_of(counts).numpy(), "no_target": np.concatenate([part.nothing for part in parts]),
    }  # fmt: skip
    greedy = _of_captions([part.greedy for part in parts], references, known)
    sampled = _of_captions([part.sampled for part in parts], references, known)
    return SplitFigures(
        counts.numpy(), RegionFigures({**greedy.scores, **once}, greedy.captions, greedy.masks), sampled, references
    )


def _of_captions(parts: Sequence[RegionFigures], references: Sequence[str], known: Known) -> RegionFigures:
    captions = [text for part in parts for text in part.captions]
    scores = {name: np.concatenate([part.scores[name] for part in parts]) for name in parts[0].scores}
    masks = np.concatenate([part.masks for part in parts])
    return RegionFigures({**scores, **worded(captions, references, known)}, captions, masks)


@torch.no_grad()
def word_entropy(policy: RegionPolicy, captions_of: Said, temperature: float) -> float:
    """Return the mean entropy of a word in nats, at the states of given captions; 0 without words."""
    total = words = 0.0
    for task, captions in captions_of:
        scores = policy.score_words(task.seen, task.masks, policy.encode(captions), temperature=temperature)
        total += float(scores.entropy.double().sum())
        words += float(scores.mask.sum())
    return total / words if words else 0.0


def equal_entropy(entropy: Callable[[float], float], target: float) -> float:
    """Return the temperature with a target entropy, from `LOWEST` to `HIGHEST`, by bisection of its logarithm.

    The entropy of a softmax rises with its temperature, and so does the mean over fixed states.

    Args:
        entropy: Mean entropy at a temperature, at states that do not depend on it.
        target: The entropy to meet.

    Example:
        >>> round(equal_entropy(lambda temperature: temperature**2, 0.25), 2)
        0.5
    """
    if target <= entropy(LOWEST):
        return LOWEST
    if target >= entropy(HIGHEST):
        return HIGHEST
    low, high = math.log(LOWEST), math.log(HIGHEST)
    while high - low > _NEAR:
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(math.exp(middle)) < target else (low, middle)
    return math.exp((low + high) / 2)
