"""Whether probabilities mean what they say: reliability bins, calibration error, and a fit that mends it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.metrics._classification import ScoreCounts

BINS = 15
"""Bins of equal width that the calibration error is counted in (Guo et al., ICML 2017)."""

_SHARPEST, _FLATTEST = 0.05, 20.0
"""Least and largest temperature that is fitted."""

_ROUNDS = 100


@dataclass(frozen=True)
class Reliability:
    """Probabilities beside what happened, in bins of equal width from 0 to 1.

    Attributes:
        count: ``[B]`` items in each bin, int64.
        said: ``[B]`` mean probability of its items, NaN without items.
        was: ``[B]`` share of class 1 among them, NaN without items.
    """

    count: Tensor
    said: Tensor
    was: Tensor

    @classmethod
    def of(cls, probabilities: Tensor, labels: Tensor, bins: int = BINS) -> Reliability:
        """Count.

        Args:
            probabilities: ``[N]`` of class 1.
            labels: ``[N]``, class 1 where above 0.5.
            bins: Number of bins B; 1.0 is in the last.
        """
        values = probabilities.double()
        place = (values * bins).long().clamp(0, bins - 1)
        count = torch.bincount(place, minlength=bins)
        divisor = torch.where(count > 0, count.double(), torch.nan)
        said = torch.bincount(place, values, minlength=bins) / divisor
        return cls(count, said, torch.bincount(place, (labels > 0.5).double(), minlength=bins) / divisor)

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of said and was, each item counting once."""
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

    Attributes:
        temperature: Above 1 makes probabilities less sure.
        bias: Added log odds.
    """

    temperature: float = 1.0
    bias: float = 0.0

    def __call__(self, logits: Tensor) -> Tensor:
        """Return probabilities of logits of any shape."""
        return torch.sigmoid(logits / self.temperature + self.bias)


def fit_calibration(logits: Tensor, labels: Tensor) -> Calibration:
    """Fit temperature and bias by maximum likelihood (Platt scaling), by Newton's method in float64.

    The smoothed targets of Platt (1999) keep the fit finite where the classes are separable.

    Args:
        logits: ``[N]``.
        labels: ``[N]``, class 1 where above 0.5.

    Returns:
        The fit; the identity where a class is missing, or where the logits tell the classes the wrong way round.
    """
    x, of_class = logits.double(), labels > 0.5
    positives, negatives = int(of_class.sum()), int((~of_class).sum())
    if not positives or not negatives:
        return Calibration()
    target = torch.where(of_class, (positives + 1) / (positives + 2), 1 / (negatives + 2)).double()
    slope, bias = 1.0, 0.0
    loss = _likelihood(x, target, slope, bias)
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
            if (found := _likelihood(x, target, *tried)) < loss:
                break
            size /= 2
        else:
            break
        done = loss - found < 1e-12 * len(x)
        (slope, bias), loss = tried, found
        if done:
            break
    if not (slope > 0 and math.isfinite(slope) and math.isfinite(bias)):
        return Calibration()
    return Calibration(min(max(1 / slope, _SHARPEST), _FLATTEST), bias)


def episode_interval(
    scores: Tensor, labels: Tensor, episodes: Tensor, *, draws: int = 200, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals of AUROC and average precision, by a bootstrap over episodes.

    Frames of one episode are alike, so that drawing frames would give intervals that are far too narrow.

    Args:
        scores: ``[N]``.
        labels: ``[N]``, class 1 where above 0.5.
        episodes: ``[N]`` int64, which episode each item is of.
        draws: Number of draws.
        seed: Of the draws.

    Returns:
        ``auroc`` and ``average_precision``; a pair of NaN where no draw has both classes.
    """
    names, place = episodes.unique(return_inverse=True)
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, list[Tensor]] = {"auroc": [], "average_precision": []}
    for start in range(0, draws, 20):  # a few at a time: [20, N] weights
        many = min(20, draws - start)
        drawn = torch.randint(len(names), (many, len(names)), generator=generator)
        times = torch.zeros(many, len(names)).scatter_add(1, drawn, torch.ones(many, len(names)))
        counts = ScoreCounts.of(scores, labels, times[:, place])
        found["auroc"].append(counts.auroc())
        found["average_precision"].append(counts.average_precision())
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    result = {}
    for name, parts in found.items():
        values = torch.cat(parts)
        values = values[values.isfinite()]
        low, high = values.quantile(ends).tolist() if len(values) else (math.nan, math.nan)
        result[name] = (low, high)
    return result


def _likelihood(x: Tensor, target: Tensor, slope: float, bias: float) -> float:
    return float(torch.nn.functional.binary_cross_entropy_with_logits(slope * x + bias, target, reduction="sum"))
