"""The loop that every trainer shares (step, log, save, stop when asked), and the parts of a run that it saves.

A checkpoint holds a table of named parts with a state (`Parts`): weights, an optimiser, a moving average, facts that
were found once. `restore` puts them back; `run_steps` does the steps that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, SupportsFloat

import numpy as np
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.nn import EMA
from motionkit.nn.sharding import as_sharded, gathered
from motionkit.runs import Checkpoint, Run, flatten_optimizer, restore_optimizer
from motionkit.training.device import seed_everything
from motionkit.training.settings import TrainerSettings
from motionkit.training.world import OneProcess, World, asked_to_stop


@dataclass(frozen=True)
class State:
    """The state of one part."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)  # named tensors, any device
    values: Mapping[str, Any] = field(default_factory=dict)  # JSON-able and finite


class Stateful(Protocol):
    """A part of a run that a checkpoint holds."""

    def state(self) -> State:
        """Return what `load_state` needs."""
        ...

    def load_state(self, state: State) -> None:
        """Put back what `state` returned, bit for bit."""
        ...


Parts = Mapping[str, Stateful]  # by name; a part's tensors become ``<name>.safetensors`` of the checkpoint


def collect(parts: Parts) -> tuple[dict[str, Mapping[str, Tensor]], dict[str, Any]]:
    """Return the tensors and values of all parts, as `motionkit.runs.Run.save` takes them."""
    result = {name: part.state() for name, part in parts.items()}
    return (
        {name: state.tensors for name, state in result.items() if state.tensors},
        {name: state.values for name, state in result.items() if state.values},
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
        """Restore them."""
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
        """Restore them."""
        parameters = dict(self.network.named_parameters())
        tensors = {
            name: as_sharded(value, parameters.get(name.rpartition("/")[0], value))
            for name, value in state.tensors.items()
        }
        restore_optimizer(self.optimizer, tensors, state.values, self.network)


@dataclass(frozen=True)
class AverageState:
    """A moving average as a part of a checkpoint."""

    ema: EMA

    def state(self) -> State:
        """Return the averages and their count of updates."""
        return State(self.ema.tensors(), {"updates": self.ema.updates})

    def load_state(self, state: State) -> None:
        """Restore them."""
        self.ema.load(state.tensors, updates=int(state.values["updates"]))


@dataclass
class Kept:
    """Facts that a trainer finds out once and wants back on resume, such as the measurement before training."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)  # named tensors
    values: Mapping[str, Any] = field(default_factory=dict)  # JSON-able and finite

    def state(self) -> State:
        """Return the facts."""
        return State(self.tensors, self.values)

    def load_state(self, state: State) -> None:
        """Restore them."""
        self.tensors, self.values = dict(state.tensors), dict(state.values)


def run_steps(
    run: Run,
    settings: TrainerSettings,
    step_fn: Callable[[int], Mapping[str, SupportsFloat]],
    parts: Parts,
    *,
    done: Callable[[], bool] = lambda: False,
    world: World | None = None,
) -> bool:
    """Run the steps that are left, with logging and checkpoints at their intervals.

    A trainer calls it once everything is in the state of ``run.start_step``: built from the seed, or given
    ``run.checkpoint()`` back by `restore`. The global random generators are put back here, last, so that whatever was
    drawn while building does not matter: k steps, resume and n - k steps give the bits of n steps.

    Several processes do the same steps, and a signal to one of them stops all after the same step. Their global
    generators are seeded before each step by seed, step and rank: dropout differs between their shares of a batch, and
    a resumed run needs nothing but the main process's checkpoint.

    Args:
        run: The open run.
        settings: Gives ``run.num_steps``, ``log.every``, ``checkpoint.every``.
        step_fn: Does step number ``step`` (1-based) and returns its metrics.
        parts: Everything a checkpoint needs to continue.
        done: Whether the trainer has reached its end before the last step; asked before each step. All processes must
            give the same answer.
        world: The processes that do the steps together.

    Returns:
        True when all steps are done and nobody asked to stop, so that final evaluations are worth their time. The
        state is saved either way.
    """
    world = world or OneProcess()
    total = settings.run.num_steps
    run.begin_steps(total)
    step, saved = run.start_step, -1
    if (checkpoint := run.checkpoint()) is not None:
        checkpoint.restore_random()
        saved = step
    while step < total and not asked_to_stop(run, world) and not done():
        step += 1
        if world.size > 1:
            seed_everything(_seed_of(settings.seed, step, world.rank))
        metrics = step_fn(step)
        if step % settings.log.every == 0 or step == total or run.stop_requested:
            run.log(step, metrics)
        if settings.checkpoint.every and step % settings.checkpoint.every == 0:
            _save(run, step, parts, world)
            saved = step
    if step > saved:
        _save(run, step, parts, world)
    return (step >= total or done()) and not asked_to_stop(run, world)


def _save(run: Run, step: int, parts: Parts, world: World) -> None:
    tensors, values = collect(parts)
    whole = {name: gathered(part, keep=world.main) for name, part in tensors.items()}
    if world.main:  # the others hold the same, or parts of it
        run.save(step, whole, values)


def _seed_of(seed: int, step: int, rank: int) -> int:
    """Return a seed for one process in one step."""
    return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0] >> np.uint64(1))
