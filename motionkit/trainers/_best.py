"""The best weights so far, by a figure of the validation clips; part of a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from motionkit.trainers._state import State


class Best:
    """Keeps a copy of the weights with the highest value.

    Attributes:
        value: The highest value; -inf before the first.
        step: Step of it.
        tensors: The weights.
    """

    def __init__(self) -> None:
        self.value, self.step = -math.inf, 0
        self.tensors: dict[str, Tensor] = {}

    def offer(self, value: float, step: int, tensors: Mapping[str, Tensor]) -> bool:
        """Keep a copy of `tensors` if `value` is higher than any before; returns whether it is."""
        if not value > self.value:
            return False
        self.value, self.step = value, step
        self.tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        return True

    def state(self) -> State:
        """Return value, step and weights."""
        return State(self.tensors, {"value": self.value, "step": self.step} if self.step else {})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self.value, self.step = float(state.values.get("value", -math.inf)), int(state.values.get("step", 0))
        self.tensors = dict(state.tensors)
