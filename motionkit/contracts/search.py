"""How a trainer's settings are searched: its component names a function that returns its `Search`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Range:
    """A number between two ends, both included."""

    low: float  # Lower end
    high: float  # Upper end
    log: bool = False  # Whether its logarithm is searched
    whole: bool = False  # Whether it is a whole number
    step: int = 1  # Step between whole numbers

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"{self.low:g} to {self.high:g} is not a range")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range begins above 0, not at {self.low:g}")
        if self.whole and (self.low != int(self.low) or self.high != int(self.high)):
            raise ValueError(f"{self.low:g} and {self.high:g} are not whole numbers")
        if self.step != 1 and (self.step < 1 or self.log or not self.whole):
            raise ValueError("a step is a whole number above 0, for whole numbers on a linear scale")


@dataclass(frozen=True)
class Choice:
    """One of several values: words, numbers, true and false, or none."""

    values: tuple[str | int | float | bool | None, ...]


Space = Mapping[str, Range | Choice]
"""A search space by dotted key; a number in a key is an index into a list: ``stages.1.trainer.freerun_weight``."""


@dataclass(frozen=True)
class Search:
    """How a trainer's settings are searched."""

    space: Space
    value: str  # Dotted key of the value in the summary document of a run; higher is better
    watch: str = ""  # Metric of metrics.jsonl that follows the value during training; empty if there is none
    # Settings that the trainer would choose automatically and the search fixes in its base; only searched ones are part
    # of the result.
    base: Mapping[str, object] = field(default_factory=dict)
    # Settings of trials only, which shorten them; not part of the result.
    trial: Mapping[str, object] = field(default_factory=dict)
    patience: int = 1  # Values of `watch` that a trial has before it may be pruned
