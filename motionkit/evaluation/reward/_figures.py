"""The figures of a success classifier on held-out frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from motionkit.evaluation.reward._score import Scored
from motionkit.metrics import (
    AtThreshold,
    Reliability,
    average_precision,
    calibration_error,
    classifier_auroc,
    episode_interval,
    pr_curve,
    roc_curve,
)

FIGURES = ("auroc", "average_precision", "precision", "recall", "ece")
"""Figures in the order of tables."""

_POINTS = 200
"""Most points of a curve that are kept."""

_HISTOGRAM = 20


def figures(scored: Scored, threshold: float) -> dict[str, float | int]:
    """Return ``auroc``, ``average_precision``, ``precision``, ``recall``, ``ece``, ``threshold`` and what is beside.

    ``accuracy`` is there to be held against ``majority_accuracy``, that of always saying the more frequent label:
    with few successes it says nothing. ``n`` counts frames, ``positives`` those of label 1.
    """
    p, labels = scored.probabilities, scored.labels
    at = AtThreshold.of(p, labels, threshold)
    positives = int((labels > 0.5).sum())
    return {
        "auroc": classifier_auroc(p, labels),
        "average_precision": average_precision(p, labels),
        "precision": at.precision,
        "recall": at.recall,
        "ece": calibration_error(p, labels),
        "threshold": threshold,
        "accuracy": at.accuracy,
        "majority_accuracy": max(positives, len(scored) - positives) / max(1, len(scored)),
        "n": len(scored),
        "positives": positives,
        "episodes": len(scored.episode.unique()),
    }


def intervals(scored: Scored, *, seed: int) -> dict[str, list[float]]:
    """Return 95 % intervals over episodes by figure; those that cannot be had are left out."""
    found = episode_interval(scored.probabilities, scored.labels, scored.episode, seed=seed)
    return {name: list(pair) for name, pair in found.items() if all(map(math.isfinite, pair))}


def curves(scored: Scored) -> dict[str, Any]:
    """Return what the charts of a page show: ``roc``, ``pr``, ``reliability`` and ``scores``, JSON-able."""
    p, labels = scored.probabilities, scored.labels
    recall, precision, _ = pr_curve(p, labels)
    bins = Reliability.of(p, labels)
    used = bins.count > 0
    spread = {
        name: torch.histc(p[of].double(), _HISTOGRAM, 0, 1).long().tolist()
        for name, of in (("success", labels > 0.5), ("other", labels <= 0.5))
    }
    return {
        "roc": _thinned(*roc_curve(p, labels)),
        "pr": _thinned(recall.flip(0), precision.flip(0)),
        "reliability": {
            "said": bins.said[used].tolist(), "was": bins.was[used].tolist(), "count": bins.count[used].tolist(),
        },
        "scores": spread,
    }  # fmt: skip


def heldout_block(found: Mapping[str, float | int], digits: int = 4) -> dict[str, float | int]:
    """Return figures rounded for a document."""
    return {name: value if isinstance(value, int) else round(value, digits) for name, value in found.items()}


def _thinned(x: Tensor, y: Tensor) -> list[list[float]]:
    """Return points ``[[x, y], ...]``; of many, some that are evenly spread over the curve, with both ends."""
    if len(x) > _POINTS:
        # By the way along the curve, so that the steep part of an ROC keeps its points.
        way = torch.cat([x.new_zeros(1), (x.diff().abs() + y.diff().abs()).cumsum(0)])
        places = torch.searchsorted(way, torch.linspace(0, float(way[-1]), _POINTS, dtype=way.dtype))
        places = places.clamp_max(len(x) - 1).unique()
        x, y = x[places], y[places]
    return [[round(a, 5), round(b, 5)] for a, b in zip(x.tolist(), y.tolist(), strict=True)]
