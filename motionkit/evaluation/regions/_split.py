"""Region policies on a split, some regions at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.datasets.base import RegionDataset, Regions, Split
from motionkit.evaluation.regions._entropy import equal_entropy, word_entropy
from motionkit.evaluation.regions._known import Known
from motionkit.evaluation.regions._measure import SEED, RegionFigures, drawn, nothing_drawn, spoken, worded
from motionkit.evaluation.regions._task import Task, iou_of, open_task, overlap
from motionkit.policies.base import RegionPolicy
from motionkit.rl import RowNoise

_STATES = 200
"""Regions whose captions the temperature of equal entropy is sought at: the first ones."""


@dataclass(frozen=True)
class SplitFigures:
    """What a policy does with every region of a split.

    Attributes:
        counts: ``[R, 2]`` int64, pixels in both masks and in either, of the data's captions.
        greedy: Scores of captions of the likeliest words, with ``referring_iou`` and ``no_target``.
        sampled: Scores of sampled captions.
        wanted: R captions of the data.
    """

    counts: NDArray[np.int64]
    greedy: RegionFigures
    sampled: RegionFigures
    wanted: Sequence[str]


@dataclass(frozen=True)
class EqualEntropy:
    """A policy at the temperature at which it is as sure of its words as another one.

    Attributes:
        temperature: That temperature.
        nats: Entropy of a word that both have then, nats.
        sampled: Scores of captions that are sampled at it.
    """

    temperature: float
    nats: float
    sampled: RegionFigures


@torch.no_grad()
def measure_split(
    policies: Sequence[RegionPolicy],
    judge: RegionPolicy,
    data: RegionDataset,
    split: Split,
    index: NDArray[np.int64],
    known: Known,
    *,
    batch: int = 32,
    temperature: float = 1.0,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[SplitFigures]:
    """Measure policies on the same regions with the same draws.

    Args:
        policies: The policies; one may be the judge itself.
        judge: The policy that draws the captions of all of them.
        data: Where regions come from.
        split: Which split.
        index: ``[R]`` regions of it.
        known: What is known of them.
        batch: Regions at once; changes memory and time only.
        temperature: Of the sampled captions.
        seed: Of their draws; 0 takes those of `sa2va-rl`'s held-out figures.
        progress: Called with the number of regions done by one policy.
    """
    parts: list[list[_Part]] = [[] for _ in policies]
    wanted: list[str] = []
    for share, found in _batches(data, split, index, batch):
        wanted += found.captions
        tasks: dict[int, Task] = {}
        for policy in (*policies, judge):
            if id(policy) not in tasks:  # the judge may be one of them
                tasks[id(policy)] = open_task(policy, found)
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
    return [_joined(own, wanted, known) for own in parts]


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
    """Measure a policy at the temperature at which it is as sure of its words as another one.

    The temperature is found by bisection on the mean entropy of a word, over the captions that the other one sampled.

    Args:
        policy: The policy, such as one before training. It judges its own captions.
        other: The policy that it is compared with.
        captions: ``[R]`` captions that `other` sampled.
        data: Where regions come from.
        split: Which split.
        index: ``[R]`` regions of it.
        known: What is known of them.
        batch: Regions at once.
        temperature: That `captions` were sampled at.
        seed: Of the draws; those of `measure_split`.
        progress: Called with the number of regions done.
    """
    first = list(_batches(data, split, index[:_STATES], batch))
    theirs = word_entropy(
        other, [(open_task(other, found), captions[share]) for share, found in first], temperature
    )  # fmt: skip
    said = [(open_task(policy, found), captions[share]) for share, found in first]
    own = equal_entropy(lambda value: word_entropy(policy, said, value), theirs)
    nats = word_entropy(policy, said, own)
    parts, wanted = [], list[str]()
    for share, found in _batches(data, split, index, batch):
        wanted += found.captions
        task = open_task(policy, found)
        noise = _draws(policy, len(index), share, seed)
        parts.append(spoken(policy, task, partial(drawn, policy, task), temperature=own, noise=noise))
        if progress is not None:
            progress(len(task))
    return EqualEntropy(own, nats, _of_captions(parts, wanted, known))


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


def _joined(parts: Sequence[_Part], wanted: Sequence[str], known: Known) -> SplitFigures:
    counts = torch.cat([part.counts for part in parts])
    once: Mapping[str, NDArray[np.float64]] = {
        "referring_iou": iou_of(counts).numpy(), "no_target": np.concatenate([part.nothing for part in parts]),
    }  # fmt: skip
    greedy = _of_captions([part.greedy for part in parts], wanted, known)
    sampled = _of_captions([part.sampled for part in parts], wanted, known)
    return SplitFigures(
        counts.numpy(), RegionFigures({**greedy.scores, **once}, greedy.captions, greedy.masks), sampled, wanted
    )


def _of_captions(parts: Sequence[RegionFigures], wanted: Sequence[str], known: Known) -> RegionFigures:
    captions = [text for part in parts for text in part.captions]
    scores = {name: np.concatenate([part.scores[name] for part in parts]) for name in parts[0].scores}
    masks = np.concatenate([part.masks for part in parts])
    return RegionFigures({**scores, **worded(captions, wanted, known)}, captions, masks)
