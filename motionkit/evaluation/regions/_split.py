"""A region policy on a split, some regions at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.datasets.base import RegionDataset, Split
from motionkit.evaluation.regions._measure import SEED, RegionFigures, drawn, spoken
from motionkit.evaluation.regions._task import Task, iou_of, open_task, overlap
from motionkit.policies.base import RegionPolicy
from motionkit.rl import RowNoise


@dataclass(frozen=True)
class SplitFigures:
    """What a policy does with every region of a split.

    Attributes:
        counts: ``[R, 2]`` int64, pixels in both masks and in either, of the data's captions.
        scores: ``[R]`` by name: ``referring_iou`` of the data's captions; ``meteor``, ``cycle_iou`` and ``judge_iou``
            of sampled captions, and with ``_greedy`` behind the name of the likeliest ones; ``no_target``, 1 where
            nothing is drawn of an absent object, NaN where no such caption was found.
        sampled: The same of sampled captions, with captions and masks, for a gallery.
    """

    counts: NDArray[np.int64]
    scores: Mapping[str, NDArray[np.float64]]
    sampled: RegionFigures


@torch.no_grad()
def measure_split(
    policies: Sequence[RegionPolicy],
    judge: RegionPolicy,
    data: RegionDataset,
    split: Split,
    index: NDArray[np.int64],
    absent: Sequence[str],
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
        absent: R captions of what is not in the image; an empty one is left out.
        batch: Regions at once; changes memory and time only.
        temperature: Of the sampled captions.
        seed: Of their draws; 0 takes those of `sa2va-rl`'s held-out figures.
        progress: Called with the number of regions done by one policy.
    """
    parts: list[list[_Part]] = [[] for _ in policies]
    for start in range(0, len(index), batch):
        share = slice(start, min(start + batch, len(index)))
        found = data.regions(split, index[share])
        tasks: dict[int, Task] = {}
        for policy in (*policies, judge):
            if id(policy) not in tasks:  # the judge may be one of them
                tasks[id(policy)] = open_task(policy, found)
        judged = partial(drawn, judge, tasks[id(judge)])
        for place, policy in enumerate(policies):
            noise = RowNoise((SEED + seed,), len(index), share, policy.device).uniform(policy.longest)
            task = tasks[id(policy)]
            sampled = spoken(policy, task, judged, temperature=temperature, noise=noise)
            greedy = spoken(policy, task, judged, temperature=0.0)
            counts = overlap(drawn(policy, task, task.captions), task.originals)
            nothing = ~(drawn(policy, task, absent[share]) > 0).flatten(1).any(1).cpu().numpy()
            said = np.array([bool(text) for text in absent[share]])
            parts[place].append(_Part(counts, sampled, greedy, np.where(said, nothing.astype(float), np.nan)))
            if progress is not None:
                progress(len(task))
    return [_joined(own) for own in parts]


@dataclass(frozen=True)
class _Part:
    counts: Tensor
    sampled: RegionFigures
    greedy: RegionFigures
    nothing: NDArray[np.float64]


def _joined(parts: Sequence[_Part]) -> SplitFigures:
    counts = torch.cat([part.counts for part in parts])
    said = {
        name: np.concatenate([part.sampled.scores[name] for part in parts]) for name in parts[0].sampled.scores
    }  # fmt: skip
    greedy = {
        f"{name}_greedy": np.concatenate([part.greedy.scores[name] for part in parts]) for name in said
    }  # fmt: skip
    referring = iou_of(counts).numpy()
    captions = [text for part in parts for text in part.sampled.captions]
    masks = np.concatenate([part.sampled.masks for part in parts])
    return SplitFigures(
        counts.numpy(),
        {"referring_iou": referring, **said, **greedy, "no_target": np.concatenate([part.nothing for part in parts])},
        RegionFigures({**said, "referring_iou": referring}, captions, masks),
    )
