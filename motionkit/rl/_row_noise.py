"""Random numbers of a step, the same for a region however many processes share the step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class RowNoise:
    """Draws numbers for the samples of a step.

    Numbers are drawn for the samples of all processes, and each process takes the rows that are its own.

    Args:
        key: What the numbers follow from, such as run seed, step and loop.
        rows: Samples over all processes.
        share: Which of them are this process's; all by default.
        device: Where the numbers go.
    """

    def __init__(
        self, key: tuple[int, ...], rows: int, share: slice = slice(None), device: torch.device | str = "cpu"
    ) -> None:
        seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
        self._draw = torch.Generator().manual_seed(seed)  # on the CPU: the same numbers on every device
        self._rows, self._share, self._device = rows, share, device

    def uniform(self, columns: int) -> Tensor:
        """Return ``[N, columns]`` numbers from 0 to 1."""
        return torch.rand(self._rows, columns, generator=self._draw)[self._share].to(self._device)

    def normal(self, columns: int) -> Tensor:
        """Return ``[N, columns]`` standard normal numbers in pairs of rows of opposite sign; the last may be alone."""
        half = torch.randn((self._rows + 1) // 2, columns, generator=self._draw)
        both = torch.stack([half, -half], 1).flatten(0, 1)[: self._rows]
        return both[self._share].to(self._device)
