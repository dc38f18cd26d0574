"""Figures of a split, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.evaluation.regions._known import Known
from motionkit.evaluation.regions._measure import RegionFigures, worded
from motionkit.evaluation.regions._split import EqualEntropy, SplitFigures
from motionkit.evaluation.regions._truth import TRUTH
from motionkit.tracking import label_of

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
_RESAMPLES = 1000

CAPTIONS = ("cycle_iou", "judge_iou", *TRUTH, "words", "meteor", "cider")
"""Figures of captions, in the order that they are shown in."""

GREEDY = tuple(f"{name}_greedy" for name in CAPTIONS)
SAMPLED = ("cycle_iou", "judge_iou", "unique", "attributes_wrong", "words", "meteor", "cider")
_PRECISIONS = {f"precision_{round(100 * level)}": level for level in THRESHOLDS}

FIGURES: Mapping[str, str] = {
    name: label_of(name) for name in (*GREEDY, "giou", "ciou", *_PRECISIONS, "no_target", *SAMPLED)
}
"""Every figure with its name for people: what one gets first, and then sampled captions."""


def rows_of(found: SplitFigures) -> dict[str, NDArray[np.float64]]:
    """Return what every figure is made of: ``[R, 2]`` numerators and denominators by figure; NaN is left out.

    A figure is the sum of the numerators over that of the denominators, 1 where the latter is 0: for cIoU pixels of
    the intersections over pixels of the unions, for every other figure a mean.
    """
    greedy, iou = found.greedy.scores, found.greedy.scores["referring_iou"]
    means = {f"{name}_greedy": own for name, own in greedy.items() if name not in ("referring_iou", "no_target")}
    means |= {"giou": iou, "no_target": greedy["no_target"]}
    means |= {name: (iou >= level).astype(np.float64) for name, level in _PRECISIONS.items()}
    means |= _sampled_of(found.sampled)
    pairs = {"ciou": found.counts.astype(np.float64)} | {name: _pairs(one) for name, one in means.items()}
    others = [name for name in pairs if name not in FIGURES]  # attributes one by one
    return {name: pairs[name] for name in (*FIGURES, *others) if name in pairs}


def _sampled_of(found: RegionFigures) -> dict[str, NDArray[np.float64]]:
    return {name: found.scores[name] for name in SAMPLED if name in found.scores}


def _pairs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.nan_to_num(values), np.isfinite(values).astype(np.float64)], 1)


def value_of(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return figures ``[...]`` of summed numerators and denominators ``[..., 2]``."""
    above, below = pairs[..., 0], pairs[..., 1]
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), 1.0)


def summarise(
    after: SplitFigures,
    before: SplitFigures | None = None,
    equal: EqualEntropy | None = None,
    *,
    data: Mapping[str, float] | None = None,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Return every figure with 95 % percentile bootstrap intervals over regions.

    Args:
        after: What was measured.
        before: The same regions by the policy that it is compared with; the difference is paired by region.
        equal: That policy at the temperature of equal entropy, beside sampled captions.
        data: Figures of the data's own captions; see `of_data`.
        seed: Of the bootstrap.

    Returns:
        By figure ``after`` and ``after_ci95``, with `before` also ``before``, ``before_ci95``, ``delta`` and its
        ``ci95``; ``n``; ``data`` where the data's captions have it; and of sampled captions ``equal_entropy`` with
        ``before``, ``delta`` and ``ci95``. A figure of no region is left out.
    """
    sides = {"after": rows_of(after)} | ({} if before is None else {"before": rows_of(before)})
    figures = list(sides["after"])
    if equal is not None:
        own = {name: _pairs(one) for name, one in _sampled_of(equal.sampled).items()}
        sides["equal"] = {name: own.get(name, np.zeros((len(after.counts), 2))) for name in figures}
    sums = {name: np.stack(list(rows.values()), 1) for name, rows in sides.items()}  # [R, figures, 2]
    count = len(sums["after"])
    draw = np.random.default_rng(seed)
    resampled: dict[str, list[NDArray[np.float64]]] = {name: [] for name in sums}
    for _ in range(_RESAMPLES):
        # How often each region is drawn: the sums follow by one product.
        times = np.bincount(draw.integers(count, size=count), minlength=count).astype(np.float64)
        for name, rows in sums.items():
            resampled[name].append(value_of(np.tensordot(times, rows, 1)))
    spread = {name: np.stack(own) for name, own in resampled.items()}
    values = {name: value_of(rows.sum(0)) for name, rows in sums.items()}
    document: dict[str, dict[str, Any]] = {}
    for place, figure in enumerate(figures):
        measured = int((sums["after"][:, place, 1] > 0).sum()) if figure != "ciou" else count
        if not measured:
            continue
        one: dict[str, Any] = {}
        for name in ("before", "after"):
            if name in sums:
                one |= {name: float(values[name][place]), f"{name}_ci95": _ends(spread[name][:, place])}
        if before is not None:
            one["delta"] = float(values["after"][place] - values["before"][place])
            one["ci95"] = _ends(spread["after"][:, place] - spread["before"][:, place])
        if equal is not None and figure in SAMPLED:
            one["equal_entropy"] = {
                "before": float(values["equal"][place]),
                "delta": float(values["after"][place] - values["equal"][place]),
                "ci95": _ends(spread["after"][:, place] - spread["equal"][:, place]),
            }
        if data is not None and figure in data:
            one["data"] = data[figure]
        document[figure] = {**one, "n": measured}
    return document


def of_data(captions: Sequence[str], known: Known) -> dict[str, float]:
    """Return means of the data's own captions, by the names of the greedy figures: what they have of `TRUTH`, words."""
    scores = worded(captions, captions, known)
    return {f"{name}_greedy": float(own.mean()) for name, own in scores.items() if name not in ("meteor", "cider")}


def _ends(values: NDArray[np.float64]) -> list[float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return [float(low), float(high)]
