"""What validation episodes decide: calibration, threshold, and which weights are the best."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.metrics import (
    AtThreshold,
    Calibration,
    average_precision,
    calibration_error,
    classifier_auroc,
    fit_calibration,
    threshold_for_f,
    threshold_for_precision,
)
from motionkit.trainers._gradients import out_of_range
from motionkit.trainers.reward_train._settings import ThresholdSettings


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what it gives on the episodes that it was chosen on.

    Attributes:
        calibration: Temperature and bias.
        threshold: Probability from which a frame is a success.
        reached: Whether the precision that was asked for was reached.
        figures: Metrics by name, ``classifier/...``.
    """

    calibration: Calibration
    threshold: float
    reached: bool
    figures: dict[str, float]


def choose(logits: Tensor, labels: Tensor, settings: ThresholdSettings, *, learning_rate: float) -> Choice:
    """Fit the calibration, choose the threshold, and measure.

    Args:
        logits: ``[N]``.
        labels: ``[N]``; both labels occur.
        settings: How the threshold is chosen.
        learning_rate: Peak learning rate of the training, for the message.

    Raises:
        MotionkitError: A logit is not finite (exit code 1).
    """
    if not bool(logits.isfinite().all()):
        raise out_of_range(
            "the classifier's output on the validation episodes is not finite.",
            "its network gives no number", learning_rate,
        )  # fmt: skip
    calibration = fit_calibration(logits, labels)
    p = calibration(logits)
    asked = settings.rule == "precision"
    found = threshold_for_precision(p, labels, settings.precision) if asked else None
    threshold = threshold_for_f(p, labels, settings.beta) if found is None else found
    at = AtThreshold.of(p, labels, threshold)
    figures = {
        "classifier/auroc": classifier_auroc(logits, labels),
        "classifier/average_precision": average_precision(logits, labels),
        "classifier/loss": float(F.binary_cross_entropy(p.double(), labels.double())),
        "classifier/precision": at.precision,
        "classifier/recall": at.recall,
        "classifier/ece": calibration_error(p, labels),
        "classifier/threshold": threshold,
        "classifier/temperature": calibration.temperature,
    }
    return Choice(calibration, threshold, not asked or found is not None, figures)


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the binary cross-entropy of logits, the mean over frames; in float32."""
    return F.binary_cross_entropy_with_logits(logits.float(), (labels > 0.5).to(torch.float32))
