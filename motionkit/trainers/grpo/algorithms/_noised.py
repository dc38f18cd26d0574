"""Finished samples, noised again: the states at which algorithms without a solver compare predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from motionkit.policies.base import DiffusionPolicy
from motionkit.policies.sampling import Samples
from motionkit.rl import gaussian, noise_key, stable_hash
from motionkit.trainers.grpo._reference import Reference

# Streams of noise that no sampler uses: its own are the trained timesteps, -1 (start) and -2 (shuffled advantages).
_STREAMS = {"match": (-3, -4), "hold": (-5, -6)}


@dataclass(frozen=True, eq=False)
class States:
    """M noised samples.

    Attributes:
        x: ``[M, T, D]`` states.
        timestep: ``[M]`` int64.
        sample: ``[M]`` int64 row of the batch that each was made of.
    """

    x: Tensor
    timestep: Tensor
    sample: Tensor


class Noised:
    """Noised states of a batch, ``x_t = sqrt(abar_t) x + sqrt(1 - abar_t) eps`` (Ho et al. 2020, eq. 4).

    All samples of a group get the same timestep and noise in a draw. Only the samples then tell their losses apart, so
    that their differences, which is what a group is for, hold less noise. A draw depends on the seed, the update, the
    prompt and its own number: not on micro-batches or processes.

    Args:
        batch: Finished samples; what is not finite in them counts as 0.
        policy: The policy that is trained.
        reference: What it is compared to.
        seed: Run seed.
        number: Number of the update.
        window: First timestep and the one after the last.
        draws: Draws in the whole update. Their timesteps lie evenly over the window, from a random start.
        guidance: Guidance scale of predictions.
        stream: What the states are for; each purpose has noise of its own.

    Attributes:
        clean: ``[N, T, D]`` normalised samples, 0 at padding.
    """

    def __init__(
        self,
        batch: Samples,
        policy: DiffusionPolicy,
        reference: Reference,
        *,
        seed: int,
        number: int,
        window: tuple[int, int],
        draws: int,
        guidance: float,
        stream: Literal["match", "hold"] = "match",
    ) -> None:
        x0 = batch.rollout.x0.detach()
        self.clean = torch.where(batch.mask[..., None] & x0.isfinite(), x0, 0.0)
        self._batch, self._policy, self._reference = batch, policy, reference
        self._other = reference.condition(batch.prompts, batch.condition)
        self._seed, self._number = seed, number
        self._window, self._draws, self._guidance = window, draws, guidance
        self._eps, self._time = _STREAMS[stream]
        self._prompts = torch.tensor([stable_hash(prompt.key) for prompt in batch.prompts], device=x0.device)

    def at(self, sample: Tensor, draw: Tensor) -> States:
        """Return the states of draw ``draw[m]`` of sample ``sample[m]``, both ``[M]`` int64."""
        prompts, (first, end) = self._prompts[sample], self._window
        start = noise_key(self._seed, self._number, self._time, prompts, torch.zeros_like(draw))
        apart = torch.div(draw * (end - first), self._draws, rounding_mode="floor")
        timestep = first + torch.remainder(torch.remainder(start, end - first) + apart, end - first)
        eps = gaussian(noise_key(self._seed, self._number, self._eps, prompts, draw), tuple(self.clean.shape[1:]))
        return States(self._policy.schedule.noised(self.clean[sample], timestep, eps), timestep, sample)

    def predict(self, states: States) -> Tensor:
        """Return the policy's predictions, ``[M, T, D]``."""
        rows, batch = states.sample, self._batch
        condition = batch.condition.select(rows)
        return self._policy.predict(
            states.x, states.timestep, condition, batch.lengths[rows], guidance=self._guidance
        ).to(states.x.dtype)

    def predict_reference(self, states: States) -> Tensor:
        """Return the reference's predictions, ``[M, T, D]``, without a graph."""
        rows, lengths = states.sample, self._batch.lengths[states.sample]
        return self._reference.predict(
            states.x, states.timestep, self._other.select(rows), lengths, guidance=self._guidance
        ).to(states.x.dtype)

    def errors(self, x0: Tensor, states: States) -> Tensor:
        """Return the mean squared error of predictions to the samples by frame, ``[M, T]``; 0 at padding."""
        return square_frames(x0 - self.clean[states.sample], self._batch.mask[states.sample])


def square_frames(moved: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over features of ``moved ** 2``, ``[M, T, D]`` to ``[M, T]``; 0 where `mask` is False."""
    return moved.masked_fill(~mask[..., None], 0.0).square().mean(-1)


def mean_frames(frames: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the frames where `mask` is True, ``[M, T]`` to ``[M]``; `frames` is 0 elsewhere."""
    return frames.sum(-1) / mask.sum(-1).clamp(min=1)
