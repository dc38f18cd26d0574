"""The whole measurement of a classifier: figures, intervals, checks, curves and the worst errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.encoders.success._card import Check
from motionkit.encoders.success._classifier import SuccessClassifier
from motionkit.evaluation.reward._checks import run_checks, verdict
from motionkit.evaluation.reward._data import Episodes
from motionkit.evaluation.reward._figures import FIGURES, curves, figures, heldout_block, intervals
from motionkit.evaluation.reward._score import score
from motionkit.evaluation.reward._strips import Strip, worst_strips

_WORDS = {
    "auroc": ("AUROC", "higher is better; 0.5 is chance"),
    "average_precision": ("average precision", "higher is better; chance is the share of successes"),
    "precision": ("precision", "of the frames above the threshold, how many are successes"),
    "recall": ("recall", "of the successes, how many are above the threshold"),
    "ece": ("calibration error", "lower is better; 0 is perfect"),
    "accuracy": ("accuracy", "to be held against the next row"),
    "majority_accuracy": ("majority accuracy", "of always saying the more frequent label"),
}
_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAIL"}


@dataclass(frozen=True)
class RewardReport:
    """What was measured.

    Attributes:
        heldout: Figures by name.
        ci95: 95 % intervals over episodes, of some figures.
        checks: The checks.
        curves: What charts show, JSON-able.
        strips: The worst errors.
    """

    heldout: Mapping[str, float | int]
    ci95: Mapping[str, list[float]]
    checks: tuple[Check, ...]
    curves: Mapping[str, Any]
    strips: tuple[Strip, ...]

    @property
    def verdict(self) -> str:
        """The checks in a sentence."""
        return verdict(self.checks)

    @property
    def sentence(self) -> str:
        """The main figures and the verdict, in a sentence or two."""
        found = self.heldout
        return (
            f"held-out AUROC {found['auroc']:.4f}; at threshold {found['threshold']:.3f} precision "
            f"{found['precision']:.3f} and recall {found['recall']:.3f}. {self.verdict[:1].upper()}{self.verdict[1:]}"
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
        for name in (*FIGURES, "accuracy", "majority_accuracy"):
            words, meaning = _WORDS[name]
            span = " to ".join(f"{end:.3f}" for end in self.ci95[name]) if name in self.ci95 else ""
            rows.append([words, f"{self.heldout[name]:.4f}", span, meaning])
        first = {"title": title, "columns": ["", "value", "95 % interval", "what it says"], "rows": rows}
        marks = [
            [check.name, _MARKS[check.status], "-" if check.value is None else f"{check.value:.3g}", check.limit]
            for check in self.checks
        ]
        second = {"title": "Checks", "columns": ["check", "", "value", "limit"], "rows": marks, "numbers": [2]}
        return [{**first, "numbers": [1]}, second]


def measure_classifier(
    classifier: SuccessClassifier,
    episodes: Episodes,
    index: NDArray[np.int64] | None = None,
    *,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> RewardReport:
    """Measure a classifier at its own threshold.

    Args:
        classifier: The classifier, with its card.
        episodes: A set of episodes with its cameras.
        index: Frames to measure on, ascending, whole episodes; None: all.
        seed: Of intervals and shuffles.
        progress: Called with the number of frames that were done.

    Raises:
        MotionkitError: Cameras or sizes differ; both sides are named.
    """
    chosen = np.arange(len(episodes)) if index is None else index
    scored = score(classifier, episodes, chosen, progress)
    found = figures(scored, classifier.threshold)
    camera = next(iter(classifier.card.cameras))
    return RewardReport(
        heldout_block(found),
        intervals(scored, seed=seed),
        run_checks(scored, found, classifier.card, seed=seed),
        curves(scored),
        worst_strips(scored, episodes, camera, classifier.threshold),
    )
