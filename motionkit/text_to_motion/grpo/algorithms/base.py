"""The protocol of an update rule."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.nn import adapter_parameters, adapters_off, has_adapters, merged_state
from motionkit.rl import NoiseSource, Predict, Rollout, StepNoise, StepPlan
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.policy import Condition, DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored
from motionkit.training.steps import State, Stateful
from motionkit.training.world import OneProcess, World


class Update(Protocol):
    """One update in progress: the credit of a batch, until the next batch is sampled."""

    def backward(self) -> bool:
        """Add the gradient of one pass over the batch to the trained parameters.

        Returns:
            False if the policy has moved far enough, so that this and further passes must be left out.
        """
        ...

    def metrics(self) -> dict[str, float]:
        """Return metrics of the update, all defined in `motionkit.tracking`; called after the last pass."""
        ...


@dataclass(frozen=True)
class Load:
    """What a step asks of the network; a row is one motion at one timestep."""

    sampled: int  # rows predicted without a graph
    trained: int  # rows predicted with a graph and differentiated
    rows: int  # rows of the largest prediction with a graph
    calls: int = 1  # such predictions whose graphs are kept at the same time
    states: int = 0  # features of each motion that are kept until the update, of the steps of its rollout
    scored: bool = False  # whether the scores of all motions are differentiated


class Algorithm(Protocol):
    """How scored samples become a gradient.

    `GRPO.step` samples along `plan`, scores the motions, calls `update`, and descends once per pass.
    """

    plan: StepPlan  # the reverse steps of a rollout; of the first one if they change
    graph: bool  # whether sampling and scoring keep a graph
    passes: int  # most optimiser steps per batch
    samples: int  # samples per prompt
    averaged: bool  # whether rollouts use the moving average of the weights
    noise: NoiseSource  # noise of rollouts
    guidance: float  # classifier-free guidance scale of rollouts

    @abstractmethod
    def rollout(
        self,
        predict: Predict,  # the policy's x0 prediction, guidance included
        start: Tensor,  # [N, T, D] standard normal start
        noise: StepNoise,
        number: int,  # updates completed before this one
    ) -> Rollout:
        """Sample along `plan`, and keep what `update` needs."""
        ...

    @abstractmethod
    def update(
        self,
        batch: Samples,  # samples, with what `rollout` kept
        scored: Scored,
        number: int,  # updates completed before this one
    ) -> Update:
        """Turn rewards into credit, or keep their graph; called with the weights of the rollout."""
        ...

    def every_plan(self) -> Iterable[StepPlan]:
        """Return the different plans of rollouts."""
        return [self.plan]

    def load(self, motions: int) -> Load:
        """Return what a step of `motions` samples asks of the network, about."""
        rows = motions * len(self.plan)
        calls = len(self.plan) if self.graph else 1
        return Load(0 if self.graph else rows, rows, motions, calls, len(self.plan), scored=self.graph)

    def calling(self) -> AbstractContextManager[None]:
        """Return the context in which it calls the network with a graph."""
        return nullcontext()

    def parts(self) -> dict[str, Stateful]:
        """Return its parts of a checkpoint, by names that the learner does not use."""
        return {}


class Reference:
    """Predictions of the reference policy at the states of a rollout.

    It is another policy if one is given, else the trained network without its adapters, which costs no memory, else a
    frozen copy of the network. With `sync_every` the policy (its adapters, or the network) is copied into it again.

    Args:
        policy: The policy that is trained, before its first update.
        other: Another policy as the reference.
        sync_every: Updates between two copies of the policy; 0 never copies.
    """

    def __init__(self, policy: DiffusionPolicy, other: DiffusionPolicy | None = None, *, sync_every: int = 0) -> None:
        self._policy = policy
        self._given = other
        self._every = sync_every
        self._frozen: DiffusionPolicy | None = None
        self._adapters: list[Tensor] = []  # copies of the policy's adapters; none before the first copy
        if other is not None and sync_every:
            raise MotionkitError(
                "a reference that was given cannot follow the policy.",
                why="objective.sync_every replaces the reference by a copy of the policy.",
                fix="leave out --reference, or set objective.sync_every to 0.",
            )
        if other is not None:
            _require_same_space(policy, other)
        elif not has_adapters(policy.network):
            self._frozen = copy.copy(policy)
            self._frozen.network = copy.deepcopy(policy.network).requires_grad_(False)

    @property
    def network(self) -> nn.Module | None:
        """Its own network; None if it is the policy's without adapters."""
        model = self._given or self._frozen
        return None if model is None else model.network

    def condition(self, prompts: Sequence[Prompt], own: Condition) -> Condition:
        """Return the reference's encoding of N prompts; `own` is the trained policy's, used if both are one network."""
        return own if self._given is None else self._given.condition(prompts)

    @torch.no_grad()
    def predict(self, x: Tensor, timestep: Tensor, condition: Condition, lengths: Tensor, *, guidance: float) -> Tensor:
        """Predict x0; arguments as `DiffusionPolicy.predict`."""
        model = self._given or self._frozen
        if model is not None:
            return model.predict(x, timestep, condition, lengths, guidance=guidance)
        with self._swapped() if self._adapters else adapters_off(self._policy.network):
            return self._policy.predict(x, timestep, condition, lengths, guidance=guidance)

    @torch.no_grad()
    def follow(self, number: int) -> None:
        """Copy the policy if it is due, before update `number` (from 0)."""
        if not self._every or number == 0 or number % self._every:
            return
        if self._frozen is not None:
            self._frozen.network.load_state_dict(self._policy.network.state_dict())
        else:
            self._adapters = [parameter.detach().clone() for parameter in adapter_parameters(self._policy.network)]

    @contextmanager
    def _swapped(self) -> Iterator[None]:
        """Use the copied adapters in the policy's network inside the block."""
        parameters = adapter_parameters(self._policy.network)
        trained = [parameter.data for parameter in parameters]
        for parameter, value in zip(parameters, self._adapters, strict=True):
            parameter.data = value
        try:
            yield
        finally:
            for parameter, value in zip(parameters, trained, strict=True):
                parameter.data = value

    def state(self) -> State:
        """Return the copy; nothing without `sync_every`."""
        if self._every and self._frozen is not None:
            return State(self._frozen.network.state_dict())
        return State({f"{number:05d}": value for number, value in enumerate(self._adapters)})

    def load_state(self, state: State) -> None:
        """Restore it."""
        if self._every and self._frozen is not None:
            self._frozen.network.load_state_dict(dict(state.tensors))
        else:
            self._adapters = [state.tensors[name].clone() for name in sorted(state.tensors)]


@dataclass(frozen=True)
class Context:
    """Keyword arguments of every algorithm's factory: ``Context(**given)``."""

    policy: DiffusionPolicy  # the trained policy
    reference: Reference  # of KL and hold
    rewards: RewardMix = field(default_factory=lambda: RewardMix(()))
    seed: int = 0  # of all noise
    precision: str = "fp32"  # of the network; or bf16
    shuffle: bool = False  # negative control: credit is random
    world: World = field(default_factory=OneProcess)  # the processes that train together
    dataset: TextMotionDataset | None = None  # its clips are those of a supervised loss
    split: Split = "train"  # of the prompts
    batch: int = 16  # prompts of an update, of all processes


def _require_same_space(policy: DiffusionPolicy, other: DiffusionPolicy) -> None:
    problems = []
    if policy.normalizer.mean.shape != other.normalizer.mean.shape:
        problems.append(f"{other.normalizer.mean.shape[-1]} features per frame, not {policy.normalizer.mean.shape[-1]}")
    elif not (
        torch.allclose(policy.normalizer.mean, other.normalizer.mean)
        and torch.allclose(policy.normalizer.std, other.normalizer.std)
    ):
        problems.append("other feature statistics")
    if len(policy.schedule) != len(other.schedule) or not torch.equal(
        policy.schedule.alphas_cumprod, other.schedule.alphas_cumprod
    ):
        problems.append(f"{len(other.schedule)} diffusion steps, not {len(policy.schedule)}, or another noise schedule")
    # Networks are compared with adapters merged: these are not part of the architecture.
    ours, theirs = (
        {name: tuple(value.shape) for name, value in merged_state(side.network).items()} for side in (policy, other)
    )
    if not problems and ours != theirs:
        problems.append("a network of another size")
    # Fingerprints by option, such as of the text model; a policy may have none. Weights may differ.
    marks, other_marks = (
        {name: mark for name, mark in (side.inputs or {}).items() if name not in ("checkpoint", "stats")}
        for side in (policy, other)
    )
    problems += [
        f"another {name.replace('_', ' ')}" for name in marks if marks[name] != other_marks.get(name, marks[name])
    ]
    if problems:
        raise MotionkitError(
            f"the reference does not match the policy: it has {' and '.join(problems)}.",
            why="KL compares two predictions of the same state, so both must be in the same space.",
            fix="give --reference a checkpoint of the same architecture, statistics and text model, or leave it out.",
        )
