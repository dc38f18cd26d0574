"""Which prompts a step gets: a function of seed and step alone, so that nothing has to be saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motionkit.text import Prompt


class PromptCursor:
    """Walks through the prompts in a new random order every epoch.

    Args:
        prompts: All training prompts.
        batch: Prompts per step; an epoch's end continues into the next order.
        seed: Run seed.
    """

    def __init__(self, prompts: Sequence[Prompt], batch: int, seed: int) -> None:
        self.prompts = prompts
        self.batch = batch
        self.seed = seed
        self._orders: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def at(self, step: int) -> list[Prompt]:
        """Return the prompts of `step` (counted from 0)."""
        first = step * self.batch
        return [self._nth(index) for index in range(first, first + self.batch)]

    def _nth(self, index: int) -> Prompt:
        epoch, place = divmod(index, len(self.prompts))
        if epoch not in self._orders:
            self._orders = {epoch: np.random.default_rng((self.seed, epoch)).permutation(len(self.prompts))}
        return self.prompts[int(self._orders[epoch][place])]
