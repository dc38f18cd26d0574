"""Checks whether a policy can be trained on a classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from motionkit_success.classification import ScoreCounts
from motionkit_success.classifier import Card, Check, Status
from motionkit_success.evaluation.data import Scored

RESETS, SHUFFLED, MAJORITY, RANDOM, AUROC = (
    "reset frames", "label shuffle", "majority baseline", "random frozen encoder", "held-out AUROC",
)  # fmt: skip
_AUROC_FAIL, _AUROC_WARN = 0.9, 0.95
_APART = 1.5
_JUMP_FAIL, _JUMP_WARN = 0.5, 0.15
_FEWEST = 5
_SHUFFLES = 20
_GAP_FAIL, _GAP_WARN = 0.05, 0.1
_PRECISION_FAIL, _PRECISION_WARN = 0.5, 0.8
_RECALL_FAIL, _RECALL_WARN = 0.25, 0.5
_ECE = 0.1
_EPISODES = 10


def run_checks(scored: Scored, figures: Mapping[str, float | int], card: Card, *, seed: int) -> tuple[Check, ...]:
    """Run all checks on the scores of held-out frames."""
    return (
        _auroc(figures["auroc"], scored),
        reset_frames(scored),
        _shuffle(scored, figures["auroc"], seed),
        _majority(figures),
        _random_encoder(card),
        _precision(figures),
        _recall(figures),
        _calibration(figures),
        _enough(scored),
    )


def verdict(checks: Sequence[Check]) -> str:
    """Return a sentence: the failed checks by name, else the warnings, else that all pass."""
    failed = [check.name for check in checks if check.status == "fail"]
    warned = [check.name for check in checks if check.status == "warn"]
    if failed:
        return f"not fit to train a policy on: {', '.join(failed)} {'fails' if len(failed) == 1 else 'fail'}."
    if warned:
        return f"all checks pass, {len(warned)} with a warning: {', '.join(warned)}."
    return f"all {len(checks)} checks pass."


def reset_frames(scored: Scored) -> Check:
    """Check whether the frames of label 1 belong to the next episode.

    A recorder that stores frames after an automatic reset pairs the success of the old episode with the first frame of
    the new one. The jump to such a frame is as large as from one episode to another. The value is the share of label-1
    frames whose jump is above the midpoint of two medians: of the jumps of label-0 frames, and of those from an
    episode's end to the next one's start.
    """
    known = scored.jump.isfinite()
    ones, zeros = scored.jump[known & (scored.labels > 0.5)], scored.jump[known & (scored.labels <= 0.5)]
    restarts = scored.restart[scored.restart.isfinite()]
    meaning = "Frames of label 1 that jump from the frame before them as far as to another episode."
    limit = f"warn from {_JUMP_WARN:g}, fail from {_JUMP_FAIL:g}"
    if min(len(ones), len(zeros), len(restarts)) < _FEWEST:
        return _unknown(RESETS, limit, meaning)
    step, restart = float(zeros.median()), float(restarts.median())
    if restart < _APART * step:
        return _unknown(RESETS, limit, meaning, "A step changes as much as another episode does: it cannot be told.")
    value = float((ones > (step + restart) / 2).double().mean())
    return _check(RESETS, value, _from_above(value, _JUMP_WARN, _JUMP_FAIL), limit, meaning)


def shuffled_auroc(scored: Scored, *, seed: int) -> float:
    """Return the AUROC against labels of other episodes, the mean over shuffles.

    Each episode gets the labels of another one, in their order. An AUROC above 0.5 is then due to the time in the
    episode alone.
    """
    names, lengths = scored.episode.unique_consecutive(return_counts=True)
    ends = lengths.cumsum(0)
    begins = ends - lengths
    place = torch.repeat_interleave(torch.arange(len(names)), lengths)
    within = torch.arange(len(scored)) - begins[place]
    generator = torch.Generator().manual_seed(seed)
    scores = []
    for _ in range(_SHUFFLES):
        other = torch.randperm(len(names), generator=generator)[place]
        labels = scored.labels[begins[other] + torch.minimum(within, lengths[other] - 1)]
        scores.append(float(ScoreCounts.of(scored.probabilities, labels).auroc()))
    values = [value for value in scores if math.isfinite(value)]
    return sum(values) / len(values) if values else math.nan


def _auroc(value: float, scored: Scored) -> Check:
    meaning = "Chance that a frame of success scores above another one, on episodes that were not trained on."
    if odd := int((~scored.probabilities.isfinite()).sum()):
        why = f"{odd:,} of {len(scored):,} probabilities are not finite."
        return Check(name=AUROC, status="fail", value=None, limit="fail if not finite", meaning=f"{meaning} {why}")
    status = _from_below(value, _AUROC_WARN, _AUROC_FAIL)
    return _check(AUROC, value, status, f"warn below {_AUROC_WARN:g}, fail below {_AUROC_FAIL:g}", meaning)


def _shuffle(scored: Scored, auroc: float, seed: int) -> Check:
    other = shuffled_auroc(scored, seed=seed)
    gap = auroc - other
    meaning = (
        f"AUROC above that on labels of other episodes ({other:.2f}): what the images tell beyond the time in the "
        "episode."
    )
    limit = f"warn below {_GAP_WARN:g}, fail below {_GAP_FAIL:g}"
    return _check(SHUFFLED, gap, _from_below(gap, _GAP_WARN, _GAP_FAIL), limit, meaning)


def _majority(figures: Mapping[str, float | int]) -> Check:
    gain = figures["accuracy"] - figures["majority_accuracy"]
    meaning = (
        f"Accuracy ({figures['accuracy']:.3f}) minus that of always saying the more frequent label "
        f"({figures['majority_accuracy']:.3f})."
    )
    return _check(MAJORITY, gain, "ok" if gain > 0 else "warn" if gain == 0 else "fail", "fail below 0", meaning)


def _random_encoder(card: Card) -> Check:
    bad = card.frozen and card.pretrained is None
    meaning = "An encoder that is frozen at random weights sees too little; a frozen one needs a pretrained file."
    return Check(name=RANDOM, status="fail" if bad else "ok", value=float(bad), limit="fail at 1", meaning=meaning)


def _precision(figures: Mapping[str, float | int]) -> Check:
    value = float(figures["precision"])
    meaning = "Share of frames above the threshold that are successes; a policy seeks out the others."
    limit = f"warn below {_PRECISION_WARN:g}, fail below {_PRECISION_FAIL:g}"
    return _check("precision", value, _from_below(value, _PRECISION_WARN, _PRECISION_FAIL), limit, meaning)


def _recall(figures: Mapping[str, float | int]) -> Check:
    value = float(figures["recall"])
    meaning = "Share of successes that are above the threshold; --reward.output binary pays for no other."
    limit = f"warn below {_RECALL_WARN:g}, fail below {_RECALL_FAIL:g}"
    return _check("recall", value, _from_below(value, _RECALL_WARN, _RECALL_FAIL), limit, meaning)


def _calibration(figures: Mapping[str, float | int]) -> Check:
    value = float(figures["ece"])
    meaning = "Mean distance of probability and frequency; it matters for --reward.output continuous."
    return _check("calibration", value, "ok" if value <= _ECE else "warn", f"warn above {_ECE:g}", meaning)


def _enough(scored: Scored) -> Check:
    many = len(scored.episode[scored.labels > 0.5].unique())
    meaning = "Held-out episodes with a frame of success; with few of them every figure here is uncertain."
    status: Status = "ok" if many >= _EPISODES else "warn"
    return _check("episodes of success", float(many), status, f"warn below {_EPISODES}", meaning)


def _check(name: str, value: float, status: Status, limit: str, meaning: str) -> Check:
    if not math.isfinite(value):
        return _unknown(name, limit, meaning)
    return Check(name=name, status=status, value=round(value, 4), limit=limit, meaning=meaning)


def _unknown(name: str, limit: str, meaning: str, why: str = "Too few frames to say.") -> Check:
    return Check(name=name, status="warn", value=None, limit=limit, meaning=f"{meaning} {why}")


def _from_above(value: float, warn: float, fail: float) -> Status:
    return "fail" if value >= fail else "warn" if value >= warn else "ok"


def _from_below(value: float, warn: float, fail: float) -> Status:
    return "fail" if value < fail else "warn" if value < warn else "ok"
