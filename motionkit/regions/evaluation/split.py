"""Measures region policies on a split, in batches of regions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.contracts.dataset import RegionDataset, Regions, Split
from motionkit.contracts.policy import RegionPolicy
from motionkit.regions.evaluation.known import TRUTH, Known
from motionkit.regions.evaluation.measure import (
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
from motionkit.rl import RowNoise

# The temperature of equal entropy: the words of two policies have the same mean entropy.


LOWEST, HIGHEST = 0.02, 10.0
"""Range of the search, in temperatures."""

_NEAR = 1e-3  # relative width of the interval at which the search ends

Said = Sequence[tuple[Task, Sequence[str]]]
"""Tasks with a caption of each of their regions."""


@torch.no_grad()
def word_entropy(policy: RegionPolicy, captions_of: Said, temperature: float) -> float:
    """Return the mean entropy of a word in nats, at the states of given captions; 0 without words."""
    total = words = 0.0
    for task, captions in captions_of:
        scores = policy.score_words(task.seen, task.masks, policy.encode(captions), temperature=temperature)
        total += float(scores.entropy.double().sum())
        words += float(scores.mask.sum())
    return total / words if words else 0.0


def equal_entropy(
    entropy: Callable[[float], float],  # mean entropy at a temperature, at states that do not depend on it
    target: float,
) -> float:
    """Return the temperature with a target entropy, from `LOWEST` to `HIGHEST`, by bisection of its logarithm.

    The entropy of a softmax rises with its temperature, and so does the mean over fixed states.

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


_STATES = 200  # number of regions, the first ones, on which the temperature of equal entropy is found


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
    policy: RegionPolicy,  # the policy, such as one before training. It judges its own captions.
    other: RegionPolicy,
    captions: Sequence[str],  # [R] captions that `other` sampled
    data: RegionDataset,
    split: Split,
    index: NDArray[np.int64],  # [R] regions of it
    known: Known,
    *,
    batch: int = 32,  # regions at once
    temperature: float = 1.0,  # that `captions` were sampled at
    seed: int = 0,  # of the draws; those of `measure_split`
    progress: Callable[[int], None] | None = None,  # called with the number of regions done
) -> EqualEntropy:
    """Measure a policy at the temperature at which its words have the entropy of another policy's.

    The temperature is found by bisection on the mean entropy of a word, over the captions that the other one sampled.
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


# Figures of a split, with bootstrap intervals.


THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
_RESAMPLES = 1000

CAPTIONS = ("cycle_iou", "judge_iou", *TRUTH, "words", "meteor", "cider")
"""Figures of captions, in the order that they are shown in."""

GREEDY = tuple(f"{name}_greedy" for name in CAPTIONS)
SAMPLED = ("cycle_iou", "judge_iou", "unique", "attributes_wrong", "words", "meteor", "cider")
_PRECISIONS = {f"precision_{round(100 * level)}": level for level in THRESHOLDS}

FIGURES = (*GREEDY, "giou", "ciou", *_PRECISIONS, "no_target", *SAMPLED)
"""Every figure: what one gets first, and then sampled captions; `motionkit.tracking` defines ``regions/NAME``."""


def rows_of(figures: SplitFigures) -> dict[str, NDArray[np.float64]]:
    """Return numerators and denominators ``[R, 2]`` of each figure; NaN is left out.

    A figure is the sum of the numerators over that of the denominators, or 1 if the latter is 0: for cIoU pixels of
    the intersections over pixels of the unions, for every other figure a mean.
    """
    greedy, iou = figures.greedy.scores, figures.greedy.scores["referring_iou"]
    means = {f"{name}_greedy": values for name, values in greedy.items() if name not in ("referring_iou", "no_target")}
    means |= {"giou": iou, "no_target": greedy["no_target"]}
    means |= {name: (iou >= level).astype(np.float64) for name, level in _PRECISIONS.items()}
    means |= _sampled_of(figures.sampled)
    pairs = {"ciou": figures.counts.astype(np.float64)} | {name: _pairs(scores) for name, scores in means.items()}
    others = [name for name in pairs if name not in FIGURES]  # attributes one by one
    return {name: pairs[name] for name in (*FIGURES, *others) if name in pairs}


def _sampled_of(figures: RegionFigures) -> dict[str, NDArray[np.float64]]:
    return {name: figures.scores[name] for name in SAMPLED if name in figures.scores}


def _pairs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.nan_to_num(values), np.isfinite(values).astype(np.float64)], 1)


def value_of(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return figures ``[...]`` of summed numerators and denominators ``[..., 2]``."""
    above, below = pairs[..., 0], pairs[..., 1]
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), 1.0)


def summarise(
    after: SplitFigures,  # what was measured
    # The same regions by the policy that it is compared with; the difference is paired by region
    before: SplitFigures | None = None,
    equal: EqualEntropy | None = None,  # that policy at the temperature of equal entropy, beside sampled captions
    *,
    data: Mapping[str, float] | None = None,  # figures of the data's own captions; see `of_data`
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Return every figure with 95 % percentile bootstrap intervals over regions.

    Returns:
        By figure ``after`` and ``after_ci95``, with `before` also ``before``, ``before_ci95``, ``delta`` and its
        ``ci95``; ``n``; ``data`` if the data's captions have it; and of sampled captions ``equal_entropy`` with
        ``before``, ``delta`` and ``ci95``. A figure of no region is left out.
    """
    sides = {"after": rows_of(after)} | ({} if before is None else {"before": rows_of(before)})
    figures = list(sides["after"])
    if equal is not None:
        pairs = {name: _pairs(scores) for name, scores in _sampled_of(equal.sampled).items()}
        sides["equal"] = {name: pairs.get(name, np.zeros((len(after.counts), 2))) for name in figures}
    sums = {name: np.stack(list(rows.values()), 1) for name, rows in sides.items()}  # [R, figures, 2]
    count = len(sums["after"])
    draw = np.random.default_rng(seed)
    resampled: dict[str, list[NDArray[np.float64]]] = {name: [] for name in sums}
    for _ in range(_RESAMPLES):
        # How often each region is drawn: the sums follow by one product.
        times = np.bincount(draw.integers(count, size=count), minlength=count).astype(np.float64)
        for name, rows in sums.items():
            resampled[name].append(value_of(np.tensordot(times, rows, 1)))
    spread = {name: np.stack(samples) for name, samples in resampled.items()}
    values = {name: value_of(rows.sum(0)) for name, rows in sums.items()}
    document: dict[str, dict[str, Any]] = {}
    for place, figure in enumerate(figures):
        measured = int((sums["after"][:, place, 1] > 0).sum()) if figure != "ciou" else count
        if not measured:
            continue
        entry: dict[str, Any] = {}
        for name in ("before", "after"):
            if name in sums:
                entry |= {name: float(values[name][place]), f"{name}_ci95": _ends(spread[name][:, place])}
        if before is not None:
            entry["delta"] = float(values["after"][place] - values["before"][place])
            entry["ci95"] = _ends(spread["after"][:, place] - spread["before"][:, place])
        if equal is not None and figure in SAMPLED:
            entry["equal_entropy"] = {
                "before": float(values["equal"][place]),
                "delta": float(values["after"][place] - values["equal"][place]),
                "ci95": _ends(spread["after"][:, place] - spread["equal"][:, place]),
            }
        if data is not None and figure in data:
            entry["data"] = data[figure]
        document[figure] = {**entry, "n": measured}
    return document


def of_data(captions: Sequence[str], known: Known) -> dict[str, float]:
    """Return means of the data's own captions, by the names of the greedy figures: what they have of `TRUTH`, words."""
    scores = worded(captions, captions, known)
    return {
        f"{name}_greedy": float(values.mean()) for name, values in scores.items() if name not in ("meteor", "cider")
    }


def _ends(values: NDArray[np.float64]) -> list[float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return [float(low), float(high)]
