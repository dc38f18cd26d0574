"""Checks whether a policy can be trained on a classifier, and film strips of its worst errors."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.metrics import ScoreCounts
from motionkit.runs import write_bytes_atomic
from motionkit.success.classifier import Card, Check, Status
from motionkit.success.episodes import Episodes
from motionkit.success.evaluation.data import Scored

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
    """Return all checks."""
    return (
        _auroc(figures["auroc"]),
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


def _auroc(value: float) -> Check:
    meaning = "Chance that a frame of success scores above another one, on episodes that were not trained on."
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


# Film strips of the worst errors, small enough to keep.


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
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(path, buffer.getvalue())


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
