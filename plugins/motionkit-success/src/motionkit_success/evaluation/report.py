"""Measurement of a classifier: figures, intervals and curves on held-out frames, and film strips of the worst errors.

`measure_classifier` returns them with the checks of `motionkit_success.evaluation.checks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.runs import write_arrays_atomic
from motionkit.tracking import definition, table_of
from motionkit_success.classification import (
    AtThreshold,
    Reliability,
    average_precision,
    calibration_error,
    classifier_auroc,
    episode_interval,
    pr_curve,
    roc_curve,
)
from motionkit_success.classifier import Check, SuccessClassifier
from motionkit_success.episodes import Episodes
from motionkit_success.evaluation.checks import run_checks, verdict
from motionkit_success.evaluation.data import Scored, score

FIGURES = ("auroc", "average_precision", "precision", "recall", "ece")
"""Figures in the order of tables."""

_POINTS = 200  # most points of a curve that are kept
_HISTOGRAM = 20

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
        marks = [
            [check.name, _MARKS[check.status], "-" if check.value is None else f"{check.value:.3g}", check.limit]
            for check in self.checks
        ]
        return [
            table_of(title, ["", "value", "95 % interval", "what it says"], rows, (1,)),
            table_of("Checks", ["check", "", "value", "limit"], marks, (2,)),
        ]


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


# Film strips, small enough to keep

Kind = Literal["false alarm", "missed"]
KINDS: tuple[Kind, ...] = ("false alarm", "missed")

FILE = "strips.npz"
_EACH = 4  # strips of each kind

_BEFORE, _AFTER = 3, 1
_SIDE = 128  # larger images are thinned out to about this side


@dataclass(frozen=True)
class Strip:
    """A frame with a wrong prediction, with those around it."""

    kind: Kind  # ``false alarm``: label 0 and a high probability; ``missed``: label 1 and a low one
    episode: str  # identifier of its episode
    step: int  # its place in it
    probability: float  # of success, by the classifier
    camera: str
    frames: NDArray[np.uint8]  # [T, H, W, 3] uint8
    at: int  # its place among `frames`
    before: tuple[float, ...]  # probability of each frame, [T]
    labels: tuple[float, ...]  # label of each frame, [T]


def worst_strips(scored: Scored, episodes: Episodes, camera: str, threshold: float) -> tuple[Strip, ...]:
    """Return the worst errors of each kind, at most one per episode."""
    strips: list[Strip] = []
    for kind in KINDS:
        alarm = kind == "false alarm"
        wrong = (scored.labels <= 0.5) & (scored.probabilities >= threshold)
        if not alarm:
            wrong = (scored.labels > 0.5) & (scored.probabilities < threshold)
        places = wrong.nonzero()[:, 0]
        order = places[scored.probabilities[places].argsort(descending=alarm, stable=True)]
        seen: set[int] = set()
        for place in order.tolist():
            episode = int(scored.episode[place])
            if episode in seen:
                continue
            seen.add(episode)
            strips.append(_strip(scored, episodes, camera, place, kind))
            if len(seen) == _EACH:
                break
    return tuple(strips)


def save_strips(path: Path, strips: Sequence[Strip]) -> None:
    """Write strips as arrays of numbers and text, without objects."""
    arrays: dict[str, Any] = {"count": np.array(len(strips))}
    for number, strip in enumerate(strips):
        arrays[f"{number}/frames"] = strip.frames
        arrays[f"{number}/about"] = np.array([strip.kind, strip.episode, strip.camera])
        arrays[f"{number}/at"] = np.array([strip.step, strip.at])
        arrays[f"{number}/said"] = np.array([strip.probability, *strip.before])
        arrays[f"{number}/labels"] = np.array(strip.labels)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays_atomic(path, arrays)


def load_strips(path: Path) -> tuple[Strip, ...]:
    """Read strips again."""
    arrays = weights.read(path)
    try:
        return tuple(_read(arrays, number) for number in range(int(np.asarray(arrays["count"]))))
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise MotionkitError(f"{path} holds no film strips.", fix="measure again: motionkit eval reward") from error


def _read(arrays: Any, number: int) -> Strip:
    kind, episode, camera = (str(word) for word in arrays[f"{number}/about"])
    step, at = (int(value) for value in arrays[f"{number}/at"])
    probability, *probabilities = (float(value) for value in arrays[f"{number}/said"])
    frames = np.asarray(arrays[f"{number}/frames"])
    labels = tuple(float(value) for value in arrays[f"{number}/labels"])
    fits = len(frames) == len(probabilities) == len(labels) and 0 <= at < len(frames)
    if kind not in KINDS or frames.ndim != 4 or frames.dtype != np.uint8 or not fits:
        raise ValueError
    return Strip("missed" if kind == "missed" else "false alarm", episode, step, probability, camera, frames, at,
                 tuple(probabilities), labels)  # fmt: skip


def _strip(scored: Scored, episodes: Episodes, camera: str, place: int, kind: Kind) -> Strip:
    near = torch.arange(max(0, place - _BEFORE), min(len(scored), place + _AFTER + 1))
    near = near[scored.episode[near] == scored.episode[place]]
    frames = episodes.read(scored.index[near].numpy())[camera]
    stride = max(1, round(max(frames.shape[1:3]) / _SIDE))
    record = episodes.records[int(scored.episode[place])]
    return Strip(
        kind, record.id, int(scored.step[place]), float(scored.probabilities[place]), camera,
        np.ascontiguousarray(frames[:, ::stride, ::stride]), int((near == place).nonzero()[0, 0]),
        tuple(scored.probabilities[near].tolist()), tuple(scored.labels[near].tolist()),
    )  # fmt: skip
