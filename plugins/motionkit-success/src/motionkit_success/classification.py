"""Scores of a two-class classifier against labels: areas, curves, thresholds; and the calibration of its probabilities.

Calibration: reliability bins, the expected calibration error, Platt scaling. `episode_interval` gives intervals of the
areas by a bootstrap over episodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.metrics import auroc

BINS = 15  # bins of equal width in which the calibration error is counted (Guo et al., ICML 2017)
_SHARPEST, _FLATTEST = 0.05, 20.0  # least and largest temperature that is fitted
_ROUNDS = 100  # most steps of Newton's method


@dataclass(frozen=True)
class ScoreCounts:
    """Counts of the items of each class by score, from which curves and areas are computed."""

    levels: Tensor  # ``[L]`` distinct scores, ascending
    positive: Tensor  # ``[..., L]`` float64 items of class 1 at each level, weights added up
    negative: Tensor  # ``[..., L]`` the same of class 0

    @classmethod
    def of(cls, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> ScoreCounts:
        """Count.

        Args:
            scores: ``[N]``, higher for class 1.
            labels: ``[N]``, class 1 if above 0.5.
            weights: ``[..., N]`` weight of each item, such as how often a bootstrap drew it; None: 1 each.
        """
        levels, place = scores.double().unique(return_inverse=True)
        weights = torch.ones(len(scores), dtype=torch.float64) if weights is None else weights.double()
        zeros = weights.new_zeros(*weights.shape[:-1], len(levels))
        of_class = labels > 0.5
        positive = zeros.index_add(-1, place, weights * of_class)
        return cls(levels, positive, zeros.index_add(-1, place, weights * ~of_class))

    def caught(self) -> tuple[Tensor, Tensor]:
        """Return ``[..., L]`` positives and negatives with a score of at least each level."""
        return _from_above(self.positive), _from_above(self.negative)

    def auroc(self) -> Tensor:
        """Return ``[...]`` the chance that class 1 scores above class 0, ties half; NaN if a class is missing."""
        return auroc(self.positive, self.negative)

    def average_precision(self) -> Tensor:
        """Return ``[...]`` the precision at each level, weighted by the recall gained there; NaN without class 1.

        No interpolation (as in scikit-learn), so it is not the area of a curve drawn through the points.
        """
        hits, alarms = self.caught()
        precision = hits / (hits + alarms).clamp_min(1e-300)
        positives = self.positive.sum(-1)
        return (precision * self.positive).sum(-1) / torch.where(positives > 0, positives, torch.nan)


def classifier_auroc(scores: Tensor, labels: Tensor) -> float:
    """Return the chance that an item of class 1 scores above one of class 0, equal scores counting half.

    Args:
        scores: ``[N]``.
        labels: ``[N]``, class 1 if above 0.5.

    Returns:
        0 to 1; NaN if a class is missing.

    Example:
        >>> classifier_auroc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        0.75
    """
    return float(ScoreCounts.of(scores, labels).auroc())


def average_precision(scores: Tensor, labels: Tensor) -> float:
    """Return the mean precision over the items of class 1; see `ScoreCounts.average_precision`.

    Example:
        >>> round(average_precision(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])), 4)
        0.8333
    """
    return float(ScoreCounts.of(scores, labels).average_precision())


def roc_curve(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the false and the true positive rate, ``[L + 1]`` each, from (0, 0) to (1, 1)."""
    counts = ScoreCounts.of(scores, labels)
    hits, alarms = (torch.cat([part.flip(0).new_zeros(1), part.flip(0)]) for part in counts.caught())
    return alarms / counts.negative.sum().clamp_min(1), hits / counts.positive.sum().clamp_min(1)


def pr_curve(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return recall, precision and the threshold of each point, ``[L]`` each, thresholds ascending."""
    counts = ScoreCounts.of(scores, labels)
    hits, alarms = counts.caught()
    return hits / counts.positive.sum().clamp_min(1), hits / (hits + alarms), counts.levels


@dataclass(frozen=True)
class AtThreshold:
    """Confusion matrix of a classifier that predicts class 1 for scores of at least a threshold."""

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int

    @classmethod
    def of(cls, scores: Tensor, labels: Tensor, threshold: float) -> AtThreshold:
        """Count; `scores` and `labels` are ``[N]``."""
        predicted, true = scores.double() >= threshold, labels > 0.5
        pairs = ((predicted, true), (predicted, ~true), (~predicted, true), (~predicted, ~true))
        return cls(*(int((left & right).sum()) for left, right in pairs))

    @property
    def precision(self) -> float:
        """Share of the predicted class 1 that is class 1; 0 without predictions of it."""
        return self.true_positive / max(1, self.true_positive + self.false_positive)

    @property
    def recall(self) -> float:
        """Share of class 1 that is predicted; 0 without items of it."""
        return self.true_positive / max(1, self.true_positive + self.false_negative)

    @property
    def accuracy(self) -> float:
        """Share of right predictions."""
        right = self.true_positive + self.true_negative
        return right / max(1, right + self.false_positive + self.false_negative)

    def f_beta(self, beta: float = 1.0) -> float:
        """Return the F-measure, in which recall counts `beta` times as much as precision."""
        return float(_f_beta(torch.tensor(self.precision), torch.tensor(self.recall), beta))


def threshold_for_precision(scores: Tensor, labels: Tensor, target: float) -> float | None:
    """Return the lowest threshold, hence that of the highest recall, with a precision of at least `target`.

    Args:
        scores: ``[N]``.
        labels: ``[N]``, class 1 if above 0.5.
        target: Precision in 0 to 1.

    Returns:
        One of the scores; None if no threshold reaches it.

    Example:
        >>> threshold_for_precision(torch.tensor([0.1, 0.5, 0.5, 0.9]), torch.tensor([0, 0, 1, 1]), 0.9)
        0.8999999761581421
    """
    _, precision, levels = pr_curve(scores, labels)
    good = (precision >= target).nonzero()
    return float(levels[good[0, 0]]) if len(good) else None


def threshold_for_f(scores: Tensor, labels: Tensor, beta: float = 0.5) -> float:
    """Return the threshold with the highest F-measure; the highest such threshold if several have it.

    Args:
        scores: ``[N]``, N at least 1.
        labels: ``[N]``, class 1 if above 0.5.
        beta: Weight of recall relative to precision; 0.5 prefers precision.
    """
    recall, precision, levels = pr_curve(scores, labels)
    f = _f_beta(precision, recall, beta)
    return float(levels[(f == f.max()).nonzero()[-1, 0]])


def _f_beta(precision: Tensor, recall: Tensor, beta: float) -> Tensor:
    below = beta * beta * precision + recall
    return (1 + beta * beta) * precision * recall / torch.where(below > 0, below, 1.0)


def _from_above(counts: Tensor) -> Tensor:
    return counts.flip(-1).cumsum(-1).flip(-1)


@dataclass(frozen=True)
class Reliability:
    """Predicted and observed probability of class 1, in bins of equal width from 0 to 1."""

    count: Tensor  # ``[B]`` items in each bin, int64
    said: Tensor  # ``[B]`` mean probability of its items, NaN without items
    was: Tensor  # ``[B]`` share of class 1 among them, NaN without items

    @classmethod
    def of(cls, probabilities: Tensor, labels: Tensor, bins: int = BINS) -> Reliability:
        """Count.

        Args:
            probabilities: ``[N]`` of class 1.
            labels: ``[N]``, class 1 if above 0.5.
            bins: Number of bins B; 1.0 is in the last.
        """
        values = probabilities.double()
        place = (values * bins).long().clamp(0, bins - 1)
        count = torch.bincount(place, minlength=bins)
        divisor = torch.where(count > 0, count.double(), torch.nan)
        predicted = torch.bincount(place, values, minlength=bins) / divisor
        return cls(count, predicted, torch.bincount(place, (labels > 0.5).double(), minlength=bins) / divisor)

    @property
    def error(self) -> float:
        """Expected calibration error: mean of ``|said - was|`` over the items."""
        gap = (self.said - self.was).abs().nan_to_num(0.0)
        return float((gap * self.count).sum() / self.count.sum().clamp_min(1))


def calibration_error(probabilities: Tensor, labels: Tensor, bins: int = BINS) -> float:
    """Return the expected calibration error (ECE); see `Reliability`.

    Example:
        >>> calibration_error(torch.full((4,), 0.75), torch.tensor([1, 1, 1, 0]))
        0.0
    """
    return Reliability.of(probabilities, labels, bins).error


@dataclass(frozen=True)
class Calibration:
    """``p = sigmoid(logit / temperature + bias)``.

    The bias is there because training draws the classes evenly, while they are not even where the classifier is used.
    """

    temperature: float = 1.0  # Above 1 makes probabilities less sure
    bias: float = 0.0  # Added log odds

    def __call__(self, logits: Tensor) -> Tensor:
        """Return probabilities of logits of any shape."""
        return torch.sigmoid(logits / self.temperature + self.bias)


def fit_calibration(logits: Tensor, labels: Tensor) -> Calibration:
    """Fit temperature and bias by maximum likelihood (Platt scaling), by Newton's method in float64.

    The smoothed targets of Platt (1999) keep the fit finite for separable classes.

    Args:
        logits: ``[N]``.
        labels: ``[N]``, class 1 if above 0.5.

    Returns:
        The fit; the identity if a class is missing, or if higher logits mean class 0.
    """
    x, of_class = logits.double(), labels > 0.5
    positives, negatives = int(of_class.sum()), int((~of_class).sum())
    if not positives or not negatives:
        return Calibration()
    target = torch.where(of_class, (positives + 1) / (positives + 2), 1 / (negatives + 2)).double()
    slope, bias = 1.0, 0.0
    loss = _loss(x, target, slope, bias)
    for _ in range(_ROUNDS):
        p = torch.sigmoid(slope * x + bias)
        error, weight = p - target, p * (1 - p)
        g = torch.stack([(error * x).sum(), error.sum()])
        h = torch.stack([(weight * x * x).sum(), (weight * x).sum(), weight.sum()])
        hessian = torch.stack([h[:2], h[1:]]) + 1e-9 * torch.eye(2, dtype=torch.float64)
        step = torch.linalg.solve(hessian, g)
        size = 1.0
        while size > 1e-6:  # halve until the loss falls
            tried = slope - size * float(step[0]), bias - size * float(step[1])
            if (lower := _loss(x, target, *tried)) < loss:
                break
            size /= 2
        else:
            break
        done = loss - lower < 1e-12 * len(x)
        (slope, bias), loss = tried, lower
        if done:
            break
    if not (slope > 0 and math.isfinite(slope) and math.isfinite(bias)):
        return Calibration()
    return Calibration(min(max(1 / slope, _SHARPEST), _FLATTEST), bias)


def episode_interval(
    scores: Tensor, labels: Tensor, episodes: Tensor, *, draws: int = 200, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals of AUROC and average precision, by a bootstrap over episodes.

    Frames of one episode are alike, so resampling frames would give intervals that are far too narrow.

    Args:
        scores: ``[N]``.
        labels: ``[N]``, class 1 if above 0.5.
        episodes: ``[N]`` int64 episode of each item.
        draws: Bootstrap samples.
        seed: Seed of the bootstrap.

    Returns:
        ``auroc`` and ``average_precision``; a pair of NaN if no draw has both classes.
    """
    names, place = episodes.unique(return_inverse=True)
    generator = torch.Generator().manual_seed(seed)
    parts_of: dict[str, list[Tensor]] = {"auroc": [], "average_precision": []}
    for start in range(0, draws, 20):  # a few at a time: [20, N] weights
        many = min(20, draws - start)
        drawn = torch.randint(len(names), (many, len(names)), generator=generator)
        times = torch.zeros(many, len(names)).scatter_add(1, drawn, torch.ones(many, len(names)))
        counts = ScoreCounts.of(scores, labels, times[:, place])
        parts_of["auroc"].append(counts.auroc())
        parts_of["average_precision"].append(counts.average_precision())
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    result = {}
    for name, parts in parts_of.items():
        values = torch.cat(parts)
        values = values[values.isfinite()]
        low, high = values.quantile(ends).tolist() if len(values) else (math.nan, math.nan)
        result[name] = (low, high)
    return result


def _loss(x: Tensor, target: Tensor, slope: float, bias: float) -> float:
    return float(torch.nn.functional.binary_cross_entropy_with_logits(slope * x + bias, target, reduction="sum"))
