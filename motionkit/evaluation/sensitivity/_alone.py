"""What a change gives away by itself: how often a classifier tells it without the other half of the pair.

A reward is meant to compare a motion with a text. Where a change can be told from the motion alone, or from the text
alone, a reward may have learnt to smell what is changed and nothing about the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.evaluation.sensitivity._rows import Example
from motionkit.motion import Skeleton, feature_layout
from motionkit.text import words_of

FEWEST = 20
"""Clips from which a classifier is trained."""

_FOLDS = 5
_RIDGE = 0.1
"""Weight of the squared norm, in units of the mean squared value of a feature."""


def motion_alone(examples: Sequence[Example], skeleton: Skeleton) -> float:
    """Return how often a linear classifier tells changed motions from real ones, without their captions.

    Args:
        examples: Clips and their changes.
        skeleton: Their body.

    Returns:
        Accuracy on clips that it was not trained on, chance is 0.5; NaN with fewer than `FEWEST` clips.
    """
    pairs = [(one.real, one.changed) for one in examples]
    if len(pairs) < FEWEST:
        return float("nan")
    rows = [np.stack([summary(motion, skeleton) for motion in side]) for side in zip(*pairs, strict=True)]
    return _accuracy(rows[0], rows[1])


def text_alone(examples: Sequence[Example]) -> float:
    """Return how often a linear classifier of words tells changed captions from own ones; as `motion_alone`."""
    pairs = [(words_of(one.own.text), words_of(one.asked.text)) for one in examples]
    if len(pairs) < FEWEST:
        return float("nan")
    known = sorted({word for pair in pairs for words in pair for word in words})
    rows = [np.array([[float(word in words) for word in known] for words in side]) for side in zip(*pairs, strict=True)]
    return _accuracy(rows[0], rows[1])


def summary(features: Tensor, skeleton: Skeleton) -> NDArray[np.float64]:
    """Return averages of a clip ``[T, D]``: where joints are and how they spread, how fast and how evenly they move."""
    layout = feature_layout(skeleton)
    rows = features.double()
    places = torch.cat([rows[:, layout.positions], rows[:, layout.root_height]], dim=1)
    steps = rows[:, layout.velocities].unflatten(1, (skeleton.joints, 3))
    speed, jolt = steps.norm(dim=-1), steps.diff(n=2, dim=0).norm(dim=-1)
    root = torch.cat([rows[:, layout.yaw_rate], rows[:, layout.root_velocity]], dim=1)
    parts = [
        places.mean(0), places.std(0, correction=0), speed.mean(0), speed.std(0, correction=0),
        jolt.mean(0) if len(jolt) else torch.zeros(skeleton.joints, dtype=torch.float64),
        root.mean(0), root.std(0, correction=0), rows[:, layout.contacts].mean(0),
    ]  # fmt: skip
    found: NDArray[np.float64] = torch.cat(parts).numpy()
    return found


def _accuracy(real: NDArray[np.float64], changed: NDArray[np.float64]) -> float:
    """Return the accuracy of ridge regression to +1 and -1, by clip: a clip and its change are never parted.

    Args:
        real: ``[n, F]``.
        changed: ``[n, F]``, row by row.
    """
    folds = np.random.default_rng(0).permutation(len(real)) % _FOLDS
    right = 0
    for fold in range(_FOLDS):
        held = folds == fold
        known = np.concatenate([real[~held], changed[~held]])
        centre, scale = known.mean(0), known.std(0)
        scale[scale < 1e-9] = 1.0
        sides = [(part - centre) / scale for part in (real, changed)]
        x = np.concatenate([part[~held] for part in sides])
        y = np.repeat([1.0, -1.0], (~held).sum())
        weights = np.linalg.solve(x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1]), x.T @ y)
        right += int((sides[0][held] @ weights > 0).sum() + (sides[1][held] @ weights < 0).sum())
    return right / (2 * len(real))
