"""Sums that add up over clips: moments, angles, histograms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Counts = NDArray[np.int64]


class Counters:
    """Base of sums whose fields add."""

    def __add__(self, other: Self) -> Self:
        """Return both together."""
        return type(self)(**{name: value + vars(other)[name] for name, value in vars(self).items()})


@dataclass(frozen=True)
class Moments:
    """Number, sum and sum of squares of values; two of them add.

    Attributes:
        count: Number of values.
        total: Their sum.
        squares: The sum of their squares.
        least: The smallest.
        most: The largest.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    @classmethod
    def of(cls, values: Tensor) -> Moments:
        """Return the moments of a tensor of any shape."""
        if not values.numel():
            return cls()
        wide = values.double()
        return cls(wide.numel(), float(wide.sum()), float(wide.square().sum()), float(wide.amin()), float(wide.amax()))

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both sets of values together."""
        return Moments(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            min(self.least, other.least),
            max(self.most, other.most),
        )

    @property
    def mean(self) -> float | None:
        """The mean, None without values."""
        return self.total / self.count if self.count else None

    @property
    def std(self) -> float | None:
        """The standard deviation (over the number of values), None without values."""
        if not self.count:
            return None
        return math.sqrt(max(self.squares / self.count - (self.total / self.count) ** 2, 0.0))


@dataclass(frozen=True)
class Circle(Counters):
    """Directions, as the sum of their unit vectors; two of them add.

    Attributes:
        count: Number of directions.
        cosines: Sum of their cosines.
        sines: Sum of their sines.
    """

    count: int = 0
    cosines: float = 0.0
    sines: float = 0.0

    @classmethod
    def of(cls, angles: Tensor) -> Circle:
        """Return the circle of angles in radians."""
        return cls(angles.numel(), float(angles.double().cos().sum()), float(angles.double().sin().sum()))

    @property
    def length(self) -> float | None:
        """Length of the mean vector: 1 when all directions agree, 0 when they cancel."""
        return math.hypot(self.cosines, self.sines) / self.count if self.count else None

    @property
    def mean_deg(self) -> float | None:
        """Circular mean in degrees, None without a direction."""
        return math.degrees(math.atan2(self.sines, self.cosines)) if self.length else None

    @property
    def std_deg(self) -> float | None:
        """Circular standard deviation sqrt(-2 ln R) in degrees (Mardia), None without a direction."""
        return math.degrees(math.sqrt(-2.0 * math.log(min(self.length, 1.0)))) if self.length else None


@dataclass(frozen=True)
class Bins:
    """Equal bins; values beyond the ends count in the first or last one.

    Attributes:
        start: Lower end of the first bin.
        width: Width of each.
        count: Number of bins.
    """

    start: float
    width: float
    count: int

    def tally(self, values: Tensor) -> Counts:
        """Return the numbers of ``[..., N]`` values in each bin, ``[..., count]`` int64."""
        place = ((values - self.start) / self.width).floor().long().clamp(0, self.count - 1)
        counts = torch.zeros(*values.shape[:-1], self.count, dtype=torch.int64)
        # Plain arrays: tensors would go between processes by shared memory, one open file each.
        return counts.scatter_add_(-1, place, torch.ones_like(place)).numpy()

    def zeros(self) -> Counts:
        """Return counts of 0."""
        return np.zeros(self.count, dtype=np.int64)

    def quantile(self, counts: Counts, part: float) -> list[float]:
        """Return for each row of ``[J, count]`` the value below which `part` of the values lie, linear in its bin."""
        running = counts.cumsum(-1, dtype=np.float64)
        goal = part * running[:, -1:]
        place = np.minimum((running < goal).sum(-1, keepdims=True), self.count - 1)
        inside = np.maximum(np.take_along_axis(counts, place, -1), 1e-12)
        before = np.take_along_axis(running, place, -1) - inside
        share = np.clip((goal - before) / inside, 0.0, 1.0)
        values: list[float] = (self.start + self.width * (place + share))[:, 0].tolist()
        return values
