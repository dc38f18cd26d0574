"""The processes that train one model together."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class World(Protocol):
    """What a process knows of the others.

    Whatever depends on the whole batch asks it: which prompts this process samples, statistics of rewards, the
    gradient, checks that must agree, and who writes the run folder. Every process calls the same methods in the same
    order.

    Attributes:
        rank: Number of this process, from 0.
        size: Number of processes.
    """

    rank: int
    size: int

    @property
    def main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the elementwise sum over all processes; any shape, the same everywhere."""
        ...

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the rows of all processes, ``[size * N, ...]`` from ``[N, ...]``, rank by rank."""
        ...


class OneProcess:
    """The plain case: a process on its own."""

    rank = 0
    size = 1
    main = True

    def sum(self, tensor: Tensor) -> Tensor:
        """Return `tensor`."""
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """Return `tensor`."""
        return tensor
