"""Which prompts a step gets: a function of seed and step alone, so that nothing has to be saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit.text import Prompt
from motionkit.trainers._world import OneProcess, World

_POOL = 4  # batches that are sorted by length together


class PromptCursor:
    """Walks through the prompts in a new random order every epoch.

    Args:
        prompts: All training prompts.
        batch: Prompts per step, over all processes; an epoch's end continues into the next order.
        seed: Run seed.
        world: The processes; each gets an equal share of a step's prompts.
        by_length: Put prompts of similar length into one step, which saves padding. The order of an epoch is cut into
            pools of four steps, each pool is sorted by length and cut into steps, and the steps are shuffled: every
            prompt is still met once an epoch.

    Raises:
        MotionkitError: The prompts of a step cannot be shared equally.
    """

    def __init__(
        self, prompts: Sequence[Prompt], batch: int, seed: int, world: World | None = None, *, by_length: bool = False
    ) -> None:
        world = world or OneProcess()
        if batch % world.size:
            raise MotionkitError(
                f"{batch} prompts per step cannot be shared by {world.size} processes.",
                fix=f"choose a --batch-size that {world.size} divides.",
            )
        self.prompts = prompts
        self.batch = batch
        self.seed = seed
        self.by_length = by_length
        self._share = batch // world.size
        self._skip = world.rank * self._share
        self._orders: dict[int, NDArray[np.int64]] = {}

    def at(self, step: int) -> list[Prompt]:
        """Return this process's prompts of `step` (counted from 0)."""
        first = step * self.batch + self._skip
        return [self._nth(index) for index in range(first, first + self._share)]

    def _nth(self, index: int) -> Prompt:
        epoch, place = divmod(index, len(self.prompts))
        if epoch not in self._orders:
            self._orders = {epoch: self._order(epoch)}
        return self.prompts[int(self._orders[epoch][place])]

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """Return the prompts of an epoch, ``[P]`` indices."""
        draw = np.random.default_rng((self.seed, epoch))
        order = draw.permutation(len(self.prompts))
        if not self.by_length:
            return order
        lengths = np.array([prompt.length for prompt in self.prompts])
        pool = _POOL * self.batch
        pools = [order[first : first + pool] for first in range(0, len(order), pool)]
        ranked = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in pools])
        steps = [ranked[first : first + self.batch] for first in range(0, len(ranked), self.batch)]
        # A last, short step stays last, or all that follow it would straddle two lengths.
        whole = [steps[place] for place in draw.permutation(len(order) // self.batch)]
        return np.concatenate([*whole, *steps[len(whole) :]])
