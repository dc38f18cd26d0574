"""Settings that change over a run."""

from __future__ import annotations


def linear(first: float, last: float | None, step: int, steps: int) -> float:
    """Return the value at a step (counted from 1) of a line from `first` to `last`; None: constant."""
    if last is None:
        return first
    return first + (last - first) * (step - 1) / max(1, steps - 1)
