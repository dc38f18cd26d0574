"""Rates with intervals."""

from __future__ import annotations

import math

import numpy as np

from motionkit.environments.base import Flags
from motionkit.evaluation._paired import compare

_Z = 1.959964
_RESAMPLES = 2000


def rate_interval(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate (Wilson 1927).

    Args:
        hits: Successes.
        count: Trials, at least one.

    Example:
        >>> [round(end, 3) for end in rate_interval(200, 200)]
        [0.981, 1.0]
    """
    rate, z2 = hits / count, _Z * _Z
    middle = (rate + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(rate * (1 - rate) / count + z2 / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def change_of(before: Flags, after: Flags, seed: int = 0) -> dict[str, object]:
    """Return a rate before and after, from the same starts.

    Args:
        before: ``[E]`` bool.
        after: ``[E]`` bool.
        seed: Of the bootstrap over episodes.

    Returns:
        ``before``, ``after``, ``delta``, ``ci95`` of the delta (bootstrap over starts), ``after_ci95`` and ``n``.
    """
    rates = [flags[:, None].astype(np.float64) for flags in (before, after)]
    found = compare(*rates, seed=seed, resamples=_RESAMPLES).document()
    return {**found, "after_ci95": list(rate_interval(int(after.sum()), len(after)))}
