"""The protocol of an update rule."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from motionkit.contracts.generating import Samples
from motionkit.rl import NoiseSource, Predict, Rollout, StepNoise, StepPlan
from motionkit.text_to_motion.rewards.mix import Scored
from motionkit.training.steps import Stateful


class Update(Protocol):
    """One update in progress: the credit of a batch, until the next batch is sampled."""

    def backward(self) -> bool:
        """Add the gradient of one pass over the batch to the trained parameters.

        Returns:
            False when the policy has moved far enough and this and further passes must be left out.

        Raises:
            MotionkitError: A check of the algorithm fails (exit code 1).
        """
        ...

    def metrics(self) -> dict[str, float]:
        """Return metrics of the update, all defined in `motionkit.tracking`; called after the last pass."""
        ...


class Algorithm(Protocol):
    """How scored samples become a gradient.

    The engine samples along `plan`, scores the motions, asks for an `Update`, and descends once per pass.

    Attributes:
        plan: The reverse steps of a rollout; of the first one, where they change.
        graph: Whether gradients stay on while sampling and scoring.
        passes: Most optimiser steps per batch.
        samples: Samples per prompt.
        averaged: Whether the moving average of the weights samples, not the trained weights themselves.
        noise: Where the noise of rollouts comes from.
        guidance: Classifier-free guidance scale of rollouts.
    """

    plan: StepPlan
    graph: bool
    passes: int
    samples: int
    averaged: bool
    noise: NoiseSource
    guidance: float

    def rollout(self, predict: Predict, start: Tensor, noise: StepNoise, number: int) -> Rollout:
        """Go from noise to motion along `plan`, and keep of it what `update` needs.

        Args:
            predict: The policy's x0 prediction, guidance included.
            start: ``[N, T, D]`` standard normal start.
            noise: Step noise by timestep.
            number: Updates completed before this one.
        """
        ...

    def update(self, batch: Samples, scored: Scored, number: int) -> Update:
        """Turn rewards into credit, or take them with their graph; called with the weights that sampled.

        Args:
            batch: Samples, with what `rollout` kept.
            scored: Their rewards.
            number: Updates completed before this one.
        """
        ...


@runtime_checkable
class HasParts(Protocol):
    """An algorithm with a state of its own."""

    def parts(self) -> dict[str, Stateful]:
        """Return what a checkpoint holds of it, by names that the learner does not use."""
        ...
