"""Episodes that a run writes, as a part of its checkpoints."""

from __future__ import annotations

import torch

from motionkit.training.steps import State
from motionkit_success.episodes import Collector


class Collected:
    """What a collector has written; see `motionkit.training.steps.Stateful`."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def state(self) -> State:
        """Return the number of episodes, and those that are running."""
        arrays, values = self._collector.state()
        return State({name: torch.from_numpy(array) for name, array in arrays.items()}, values)

    def load_state(self, state: State) -> None:
        """Go back to it."""
        self._collector.rewind({name: tensor.numpy() for name, tensor in state.tensors.items()}, state.values)
