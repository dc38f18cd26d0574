"""Measurement of a classifier: figures, intervals, checks, curves and the worst errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
from motionkit.success.classifier import Check, SuccessClassifier
from motionkit.success.episodes import Episodes
from motionkit.success.evaluation.checks import Strip, run_checks, verdict, worst_strips
from motionkit.success.evaluation.data import Scored, score
from motionkit.tracking import definition

# The figures of a success classifier on held-out frames.


FIGURES = ("auroc", "average_precision", "precision", "recall", "ece")
"""Figures in the order of tables."""

_POINTS = 200  # most points of a curve that are kept
_HISTOGRAM = 20


def figures(scored: Scored, threshold: float) -> dict[str, float | int]:
    """Return ``auroc``, ``average_precision``, ``precision``, ``recall``, ``ece``, ``threshold`` and others.

    ``accuracy`` is to be compared with ``majority_accuracy``, that of always predicting the more frequent label.
    ``n`` counts frames, ``positives`` those of label 1.
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
    """Return 95 % intervals over episodes by figure, without those that are not finite."""
    measured = episode_interval(scored.probabilities, scored.labels, scored.episode, seed=seed)
    return {name: list(pair) for name, pair in measured.items() if all(map(math.isfinite, pair))}


def curves(scored: Scored) -> dict[str, Any]:
    """Return the data of a page's charts: ``roc``, ``pr``, ``reliability`` and ``scores``, JSON-able."""
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


def heldout_block(values: Mapping[str, float | int], digits: int = 4) -> dict[str, float | int]:
    """Return figures rounded for a document."""
    return {name: value if isinstance(value, int) else round(value, digits) for name, value in values.items()}


def _thinned(x: Tensor, y: Tensor) -> list[list[float]]:
    """Return points ``[[x, y], ...]``, thinned to `_POINTS` evenly spaced ones with both ends."""
    if len(x) > _POINTS:
        # By arc length, so that the steep part of an ROC keeps its points.
        way = torch.cat([x.new_zeros(1), (x.diff().abs() + y.diff().abs()).cumsum(0)])
        places = torch.searchsorted(way, torch.linspace(0, float(way[-1]), _POINTS, dtype=way.dtype))
        places = places.clamp_max(len(x) - 1).unique()
        x, y = x[places], y[places]
    return [[round(a, 5), round(b, 5)] for a, b in zip(x.tolist(), y.tolist(), strict=True)]


_READ = {
    "auroc": "higher is better; 0.5 is chance",
    "average_precision": "higher is better; chance is the share of successes",
    "precision": "of the frames above the threshold, how many are successes",
    "recall": "of the successes, how many are above the threshold",
    "ece": "lower is better; 0 is perfect",
    "accuracy": "to be held against the next row",
    "majority_accuracy": "of always saying the more frequent label",
}
"""How to read each figure of the table, in its order."""

_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAIL"}


@dataclass(frozen=True)
class RewardReport:
    """Result of a measurement."""

    heldout: Mapping[str, float | int]  # figures by name
    ci95: Mapping[str, list[float]]  # 95 % intervals over episodes, of some figures
    checks: tuple[Check, ...]
    curves: Mapping[str, Any]  # data of charts, JSON-able
    strips: tuple[Strip, ...]  # the worst errors

    @property
    def verdict(self) -> str:
        """The checks in a sentence."""
        return verdict(self.checks)

    @property
    def sentence(self) -> str:
        """The main figures and the verdict, in a sentence or two."""
        values = self.heldout
        return (
            f"held-out AUROC {values['auroc']:.4f}; at threshold {values['threshold']:.3f} precision "
            f"{values['precision']:.3f} and recall {values['recall']:.3f}. {self.verdict[:1].upper()}{self.verdict[1:]}"
        )

    def document(self) -> dict[str, Any]:
        """Return it as a JSON-able document, without the strips."""
        return {
            "heldout": dict(self.heldout),
            "ci95": dict(self.ci95),
            "checks": [check.model_dump() for check in self.checks],
            "verdict": self.verdict,
            "curves": dict(self.curves),
        }

    def tables(self, title: str) -> list[dict[str, Any]]:
        """Return two tables for people: figures, and checks."""
        rows = []
        for name, read in _READ.items():
            metric = definition(f"classifier/{name}")
            span = " to ".join(f"{end:.3f}" for end in self.ci95[name]) if name in self.ci95 else ""
            rows.append([metric.title(), metric.text(self.heldout[name]), span, read])
        first = {"title": title, "columns": ["", "value", "95 % interval", "what it says"], "rows": rows}
        marks = [
            [check.name, _MARKS[check.status], "-" if check.value is None else f"{check.value:.3g}", check.limit]
            for check in self.checks
        ]
        second = {"title": "Checks", "columns": ["check", "", "value", "limit"], "rows": marks, "numbers": [2]}
        return [{**first, "numbers": [1]}, second]


def measure_classifier(
    classifier: SuccessClassifier,  # the classifier, with its card
    episodes: Episodes,  # a set of episodes with its cameras
    index: NDArray[np.int64] | None = None,  # frames to measure on, ascending, whole episodes; None: all
    *,
    seed: int = 0,  # of intervals and shuffles
    progress: Callable[[int], None] | None = None,  # called with the number of frames that were done
) -> RewardReport:
    """Measure a classifier at its own threshold."""
    chosen = np.arange(len(episodes)) if index is None else index
    scored = score(classifier, episodes, chosen, progress)
    values = figures(scored, classifier.threshold)
    camera = next(iter(classifier.card.cameras))
    return RewardReport(
        heldout_block(values),
        intervals(scored, seed=seed),
        run_checks(scored, values, classifier.card, seed=seed),
        curves(scored),
        worst_strips(scored, episodes, camera, classifier.threshold),
    )
