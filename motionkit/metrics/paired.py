"""Paired comparison of two measurements of the same prompts with the same noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000


@dataclass(frozen=True)
class Paired:
    """Before and after of one quantity."""

    before: float  # Mean before
    after: float  # Mean after
    delta: float  # Mean of after - before over the pairs
    # Percentile bootstrap interval of `delta`, resampling prompts (not samples: samples of one prompt are not
    # independent). It holds no training-seed variance.
    ci95: tuple[float, float]
    n: int  # Prompts that could be compared

    def document(self) -> dict[str, object]:
        """Return the block of the ``--json`` document."""
        return {"before": self.before, "after": self.after, "delta": self.delta, "ci95": list(self.ci95), "n": self.n}


def compare(
    before: NDArray[np.float64], after: NDArray[np.float64], *, seed: int = 0, resamples: int = RESAMPLES
) -> Paired:
    """Compare ``[P, S]`` measurements (P prompts, S samples with common noise); NaN pairs are left out."""
    valid = np.isfinite(before) & np.isfinite(after)
    rows = valid.any(axis=1)
    count = valid[rows].sum(axis=1)
    first = np.where(valid, before, 0.0)[rows].sum(axis=1) / count
    second = np.where(valid, after, 0.0)[rows].sum(axis=1) / count
    delta = second - first
    n = len(delta)
    if n == 0:
        nan = float("nan")
        return Paired(nan, nan, nan, (nan, nan), 0)
    draws = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
    low, high = np.quantile(delta[draws].mean(axis=1), [0.025, 0.975])
    return Paired(float(first.mean()), float(second.mean()), float(delta.mean()), (float(low), float(high)), n)
