"""What a checkpoint holds: a table of named stateful parts, saved and restored in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.nn import EMA
from motionkit.runs import Checkpoint, flatten_optimizer, restore_optimizer


@dataclass(frozen=True)
class State:
    """The state of one part.

    Attributes:
        tensors: Named tensors, any device.
        values: JSON-able and finite.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


class Stateful(Protocol):
    """A part of a run that a checkpoint holds."""

    def state(self) -> State:
        """Return everything that `load_state` needs."""
        ...

    def load_state(self, state: State) -> None:
        """Put back what `state` returned, bit for bit."""
        ...


Parts = Mapping[str, Stateful]
"""By name; a part's tensors become ``<name>.safetensors`` of the checkpoint."""


def collect(parts: Parts) -> tuple[dict[str, Mapping[str, Tensor]], dict[str, Any]]:
    """Return the tensors and values of all parts, as `motionkit.runs.Run.save` takes them."""
    found = {name: part.state() for name, part in parts.items()}
    return (
        {name: state.tensors for name, state in found.items() if state.tensors},
        {name: state.values for name, state in found.items() if state.values},
    )


def restore(parts: Parts, checkpoint: Checkpoint) -> None:
    """Put a checkpoint back into the parts it was made of.

    Raises:
        MotionkitError: The checkpoint holds other parts.
    """
    saved = {*checkpoint.tensors, *checkpoint.state}
    if missing := sorted(name for name, part in parts.items() if name not in saved and not _empty(part)):
        raise MotionkitError(
            f"{checkpoint.path} holds no {missing[0]!r}.",
            why="it was written by another version of motionkit or by another trainer.",
            fix="start a new run; --policy.checkpoint takes the weights of this one.",
        )
    with torch.no_grad():
        for name, part in parts.items():
            part.load_state(State(checkpoint.tensors.get(name, {}), checkpoint.state.get(name, {})))


def _empty(part: Stateful) -> bool:
    state = part.state()
    return not state.tensors and not state.values


class Learnable(Protocol):
    """A model as a network and the tensors that a checkpoint of it needs; policies are."""

    @property
    def network(self) -> nn.Module:
        """The module whose parameters are trained."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return everything a checkpoint of the model needs, by name."""
        ...

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned, in place; strict."""
        ...


@dataclass(frozen=True)
class ModelState:
    """The weights of a model as a part of a checkpoint."""

    model: Learnable

    def state(self) -> State:
        """Return the model's tensors."""
        return State(self.model.tensors())

    def load_state(self, state: State) -> None:
        """Put them back."""
        self.model.load_tensors(state.tensors)


@dataclass(frozen=True)
class OptimizerState:
    """An optimiser as a part of a checkpoint; its tensors are named after the parameters of `network`."""

    optimizer: torch.optim.Optimizer
    network: nn.Module

    def state(self) -> State:
        """Return moments and options."""
        return State(*flatten_optimizer(self.optimizer, self.network))

    def load_state(self, state: State) -> None:
        """Put them back."""
        restore_optimizer(self.optimizer, state.tensors, state.values, self.network)


@dataclass(frozen=True)
class AverageState:
    """A moving average as a part of a checkpoint."""

    ema: EMA

    def state(self) -> State:
        """Return the averages and their count of updates."""
        return State(self.ema.tensors(), {"updates": self.ema.updates})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self.ema.load(state.tensors, updates=int(state.values["updates"]))


@dataclass
class Kept:
    """Facts that a trainer finds out once and wants back on resume, such as the measurement before training.

    Attributes:
        tensors: Named tensors.
        values: JSON-able and finite.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    def state(self) -> State:
        """Return the facts."""
        return State(self.tensors, self.values)

    def load_state(self, state: State) -> None:
        """Put them back."""
        self.tensors, self.values = dict(state.tensors), dict(state.values)
