"""What a search may change in a trainer's settings; a trainer's component names a function that returns it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Range:
    """A number between two ends, both included."""

    low: float  # Lower end
    high: float  # Upper end
    log: bool = False  # Whether it is searched by its logarithm
    whole: bool = False  # Whether it is a whole number
    step: int = 1  # Distance of two whole numbers that are tried

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"{self.low:g} to {self.high:g} is no range")
        if self.log and self.low <= 0:
            raise ValueError(f"a range by the logarithm begins above 0, not at {self.low:g}")
        if self.whole and (self.low != int(self.low) or self.high != int(self.high)):
            raise ValueError(f"{self.low:g} and {self.high:g} are no whole numbers")
        if self.step != 1 and (self.step < 1 or self.log or not self.whole):
            raise ValueError("a step is a whole number above 0, of whole numbers that are not searched by logarithm")


@dataclass(frozen=True)
class Choice:
    """One of several values: words, numbers, true and false, or none."""

    values: tuple[str | int | float | bool | None, ...]  # The values


Space = Mapping[str, Range | Choice]
"""What is searched, by dotted key; a number in a key counts in a list from 0: ``stages.1.trainer.freerun_weight``."""


@dataclass(frozen=True)
class Search:
    """How a trainer's settings are searched."""

    space: Space  # What is searched
    value: str  # Where the value of a run stands in its summary document, dotted; higher is better
    watch: str = ""  # Metric of metrics.jsonl that tells the value on the way; empty where there is none
    # Settings that the search fixes in its base, where the trainer would decide them by itself; the result holds those
    # of them that are searched.
    base: Mapping[str, object] = field(default_factory=dict)
    # Settings of trials alone, which make them short; the result does not hold them.
    trial: Mapping[str, object] = field(default_factory=dict)
    patience: int = 1  # Values of `watch` that a trial has before it may be pruned
