"""Which prompts a step gets: a function of seed and step alone, so that nothing has to be saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motionkit.errors import MotionkitError
from motionkit.text import Prompt
from motionkit.trainers._world import OneProcess, World


class PromptCursor:
    """Walks through the prompts in a new random order every epoch.

    Args:
        prompts: All training prompts.
        batch: Prompts per step, over all processes; an epoch's end continues into the next order.
        seed: Run seed.
        world: The processes; each gets an equal share of a step's prompts.

    Raises:
        MotionkitError: The prompts of a step cannot be shared equally.
    """

    def __init__(self, prompts: Sequence[Prompt], batch: int, seed: int, world: World | None = None) -> None:
        world = world or OneProcess()
        if batch % world.size:
            raise MotionkitError(
                f"{batch} prompts per step cannot be shared by {world.size} processes.",
                fix=f"choose a --batch-size that {world.size} divides.",
            )
        self.prompts = prompts
        self.batch = batch
        self.seed = seed
        self._share = batch // world.size
        self._skip = world.rank * self._share
        self._orders: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def at(self, step: int) -> list[Prompt]:
        """Return this process's prompts of `step` (counted from 0)."""
        first = step * self.batch + self._skip
        return [self._nth(index) for index in range(first, first + self._share)]

    def _nth(self, index: int) -> Prompt:
        epoch, place = divmod(index, len(self.prompts))
        if epoch not in self._orders:
            self._orders = {epoch: np.random.default_rng((self.seed, epoch)).permutation(len(self.prompts))}
        return self.prompts[int(self._orders[epoch][place])]
