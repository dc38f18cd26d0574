"""The temperature at which one policy is as sure of its words as another one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from motionkit.evaluation.regions._task import Task
from motionkit.policies.base import RegionPolicy

LOWEST, HIGHEST = 0.02, 10.0
"""Temperatures that are tried."""

_NEAR = 1e-3
"""Relative width of the interval at which the search ends."""

Said = Sequence[tuple[Task, Sequence[str]]]
"""Tasks with a caption of each of their regions."""


@torch.no_grad()
def word_entropy(policy: RegionPolicy, said: Said, temperature: float) -> float:
    """Return the mean entropy of a word in nats, at the states that given captions lead through; 0 without words."""
    total = words = 0.0
    for task, captions in said:
        scores = policy.score_words(task.seen, task.masks, policy.encode(captions), temperature=temperature)
        total += float(scores.entropy.double().sum())
        words += float(scores.mask.sum())
    return total / words if words else 0.0


def equal_entropy(entropy: Callable[[float], float], wanted: float) -> float:
    """Return the temperature of a wanted entropy by bisection of its logarithm.

    The entropy of a softmax rises with its temperature, and so does the mean over fixed states.

    Args:
        entropy: Mean entropy at a temperature, at states that do not depend on it.
        wanted: The entropy.

    Returns:
        The temperature; `LOWEST` or `HIGHEST` where the wanted entropy is beyond that of these.

    Example:
        >>> round(equal_entropy(lambda temperature: temperature**2, 0.25), 2)
        0.5
    """
    if wanted <= entropy(LOWEST):
        return LOWEST
    if wanted >= entropy(HIGHEST):
        return HIGHEST
    low, high = math.log(LOWEST), math.log(HIGHEST)
    while high - low > _NEAR:
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(math.exp(middle)) < wanted else (low, middle)
    return math.exp((low + high) / 2)
