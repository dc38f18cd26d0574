"""Figures of a split, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.evaluation.regions._split import SplitFigures

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
_RESAMPLES = 1000

FIGURES: Mapping[str, str] = {
    "ciou": "cIoU",
    "giou": "gIoU",
    **{f"precision_{round(100 * level)}": f"precision at {level:g}" for level in THRESHOLDS},
    "meteor": "METEOR, sampled",
    "meteor_greedy": "METEOR, greedy",
    "cycle_iou": "cycle IoU, sampled",
    "cycle_iou_greedy": "cycle IoU, greedy",
    "judge_iou": "judge IoU, sampled",
    "judge_iou_greedy": "judge IoU, greedy",
    "no_target": "no-target",
}
"""Every figure with its name for people."""


def rows_of(found: SplitFigures) -> dict[str, NDArray[np.float64]]:
    """Return what every figure is made of: ``[R, 2]`` numerators and denominators by figure; NaN is left out.

    A figure is the sum of the numerators over that of the denominators, 1 where the latter is 0: for cIoU pixels of
    the intersections over pixels of the unions, for every other figure a mean.
    """
    iou = found.scores["referring_iou"]
    means = {"giou": iou}
    means |= {f"precision_{round(100 * level)}": (iou >= level).astype(np.float64) for level in THRESHOLDS}
    means |= {name: values for name, values in found.scores.items() if name != "referring_iou"}
    pairs = {"ciou": found.counts.astype(np.float64)}
    pairs |= {
        name: np.stack([np.nan_to_num(one), np.isfinite(one).astype(np.float64)], 1) for name, one in means.items()
    }
    return {name: pairs[name] for name in FIGURES}


def value_of(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return figures ``[...]`` of summed numerators and denominators ``[..., 2]``."""
    above, below = pairs[..., 0], pairs[..., 1]
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), 1.0)


def summarise(after: SplitFigures, before: SplitFigures | None = None, *, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Return every figure with 95 % percentile bootstrap intervals over regions.

    Args:
        after: What was measured.
        before: The same regions by the policy that it is compared with; the difference is paired by region.
        seed: Of the bootstrap.

    Returns:
        By figure ``after`` and ``after_ci95``, with `before` also ``before``, ``before_ci95``, ``delta`` and its
        ``ci95``; and ``n``. A figure of no region is left out.
    """
    sides = {"after": rows_of(after)} | ({} if before is None else {"before": rows_of(before)})
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
    for place, figure in enumerate(FIGURES):
        measured = int((sums["after"][:, place, 1] > 0).sum()) if figure != "ciou" else count
        if not measured:
            continue
        one: dict[str, Any] = {}
        for name in reversed(list(sums)):
            one |= {name: float(values[name][place]), f"{name}_ci95": _ends(spread[name][:, place])}
        if before is not None:
            one["delta"] = float(values["after"][place] - values["before"][place])
            one["ci95"] = _ends(spread["after"][:, place] - spread["before"][:, place])
        document[figure] = {**one, "n": measured}
    return document


def _ends(values: NDArray[np.float64]) -> list[float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return [float(low), float(high)]
