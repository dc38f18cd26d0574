"""Base of the algorithms on finished samples: sampling, passes in micro-batches, the hold, metrics.

They need no log-probability and work with any sampler, here the deterministic one: losses compare predictions at
``x_t = noised(x, t, eps)`` with the samples x.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from motionkit.nn import zeroed
from motionkit.rl import (
    DDIM,
    NoiseSource,
    Predict,
    Rollout,
    StepNoise,
    StepPlan,
    gaussian,
    noise_key,
    rollout,
    roughness,
    stable_hash,
)
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.base import Algorithm, Context, Load, Reference
from motionkit.text_to_motion.grpo.algorithms.options import MatchingOptions
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.training.world import sum_over

# Streams of noise that no sampler uses: those are the trained timesteps, -1 (start) and -2 (shuffled advantages).
_STREAMS = {"match": (-3, -4), "hold": (-5, -6)}
_HELD = 4  # the hold uses every fourth sample in an update, another quarter each time
Terms = Callable[[Tensor, Tensor], Mapping[str, Tensor]]
"""``terms(unit [M], draw [M]) -> values [M]`` by metric name; those named ``loss/...`` carry a graph and are added."""


@dataclass(frozen=True, eq=False)
class States:
    """M noised samples."""

    x: Tensor  # [M, T, D] states
    timestep: Tensor  # [M] int64
    sample: Tensor  # [M] int64 row of the batch


class Noised:
    """Noised states of a batch, ``x_t = sqrt(abar_t) x + sqrt(1 - abar_t) eps`` (Ho et al. 2020, eq. 4).

    In a draw all samples of a group get the same timestep and noise, so that differences of their losses have less
    variance. A draw depends on the seed, the update, the prompt and its number, not on micro-batches or processes.

    Args:
        batch: Finished samples; values that are not finite count as 0.
        policy: The policy.
        reference: The reference.
        seed: Run seed.
        number: Number of the update.
        window: First timestep and the one after the last.
        draws: Draws in the whole update. Their timesteps lie evenly over the window, from a random start.
        guidance: Guidance scale of predictions.
        stream: Use of the states; each has another noise stream.
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
        # [N, T, D] normalised samples, 0 at padding
        self.clean = torch.where(batch.mask[..., None] & x0.isfinite(), x0, 0.0)
        self._batch, self._policy, self._reference = batch, policy, reference
        self._reference_condition = reference.condition(batch.prompts, batch.condition)
        self._seed, self._number = seed, number
        self._window, self._draws, self._guidance = window, draws, guidance
        self._eps, self._time = _STREAMS[stream]
        self._prompts = torch.tensor([stable_hash(prompt.key) for prompt in batch.prompts], device=x0.device)

    def at(self, sample: Tensor, draw: Tensor) -> States:
        """Return the states of draw ``draw[m]`` of sample ``sample[m]``, both ``[M]`` int64."""
        prompts, (first, end) = self._prompts[sample], self._window
        start = noise_key(self._seed, self._number, self._time, prompts, torch.zeros_like(draw))
        offset = torch.div(draw * (end - first), self._draws, rounding_mode="floor")
        timestep = first + torch.remainder(torch.remainder(start, end - first) + offset, end - first)
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
            states.x, states.timestep, self._reference_condition.select(rows), lengths, guidance=self._guidance
        ).to(states.x.dtype)

    def errors(self, x0: Tensor, states: States) -> Tensor:
        """Return the mean squared error of predictions to the samples by frame, ``[M, T]``; 0 at padding."""
        return square_frames(x0 - self.clean[states.sample], self._batch.mask[states.sample])


def square_frames(moved: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over features of ``moved ** 2``, ``[M, T, D]`` to ``[M, T]``; 0 where `mask` is False."""
    return zeroed(moved, mask).square().mean(-1)


def mean_frames(frames: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over valid frames, ``[M, T]`` to ``[M]``; `frames` is 0 at padding."""
    return frames.sum(-1) / mask.sum(-1).clamp(min=1)


class Matching(Algorithm):
    """The part of an algorithm that does not depend on its loss; see `motionkit.text_to_motion.grpo.algorithms.base`.

    In the negative control credit is random.
    """

    graph = False

    def __init__(self, options: MatchingOptions, **given: Any) -> None:
        objective, sampler, context = options.objective, options.sampler, Context(**given)
        self.policy, self.reference, self.world = context.policy, context.reference, context.world
        self.settings = objective
        self.guidance = sampler.guidance_scale
        self.samples = options.rollout.group_size
        self.averaged = options.rollout.averaged
        self.micro_batch = options.rollout.micro_batch
        self.noise = NoiseSource(context.seed)
        self.shuffle_seed = context.seed if context.shuffle else None
        self.passes = objective.inner_epochs
        schedule = self.policy.schedule
        steps = schedule.visited(sampler.spacing, sampler.train_timesteps)
        self.plan = StepPlan.build(schedule, DDIM(0.0), steps=steps)
        total = len(schedule)
        self.window = (total - max(1, round(objective.noisiest * total)), total)

    def rollout(self, predict: Predict, start: Tensor, noise: StepNoise, number: int) -> Rollout:
        """Sample by the deterministic sampler; only the finished samples are kept."""
        return rollout(predict, self.plan, start, noise, record=False)

    def load(self, motions: int) -> Load:
        """Return what a step asks of the network: a quarter of the samples is predicted again to hold the policy."""
        drawn = motions * self.settings.draws
        sampled = motions * len(self.plan) + motions // 4
        return Load(sampled, self.passes * (drawn + motions // 4), min(self.micro_batch, drawn))

    def noised(self, batch: Samples, number: int, *, hold: bool = False) -> Noised:
        """Return the states of an update: for matching, or for the hold."""
        return Noised(
            batch,
            self.policy,
            self.reference,
            seed=self.noise.seed,
            number=number,
            window=(0, len(self.policy.schedule)) if hold else self.window,
            draws=self.passes if hold else self.passes * self.settings.draws,
            guidance=self.guidance,
            stream="hold" if hold else "match",
        )


class MatchingUpdate:
    """One update of a `Matching` algorithm; see `motionkit.text_to_motion.grpo.algorithms.base.Update`.

    Losses are additive over micro-batches and processes, so neither changes the update.

    Args:
        rule: The algorithm.
        batch: The finished samples.
        number: Number of the update.
        terms: The losses of (unit, draw) pairs; a unit is a sample, or a pair of them.
        units: Units of this process.
        total: Divisor of the means: units of all processes, without those left out.
        metrics: Further metrics.
        states: Forward passes per (unit, draw), which the micro-batch counts.
    """

    def __init__(
        self,
        rule: Matching,
        batch: Samples,
        number: int,
        terms: Terms,
        *,
        units: int,
        total: float,
        metrics: Mapping[str, float],
        states: int = 1,
    ) -> None:
        self._rule, self._batch, self._number = rule, batch, number
        self._terms, self._units, self._total, self._states = terms, units, total, states
        self._known = metrics
        self._held = rule.noised(batch, number, hold=True)
        self._passes = 0
        self._sums: dict[str, float] = {}

    def backward(self) -> bool:
        """Add the gradient of all draws of one pass, a micro-batch at a time, and of the hold."""
        rule, draws = self._rule, self._rule.settings.draws
        sums: dict[str, float] = defaultdict(float)
        # Row r is draw r // U of unit r % U; each pass has other draws.
        rows = torch.arange(self._units * draws, device=self._batch.lengths.device)
        for chunk in rows.split(max(1, rule.micro_batch // self._states)):
            draw = self._passes * draws + torch.div(chunk, self._units, rounding_mode="floor")
            values_by_name = self._terms(chunk % self._units, draw)
            means = {name: values.sum() / (self._total * draws) for name, values in values_by_name.items()}
            _add(means, sums)
        if rule.settings.anchor or rule.settings.hold:
            self._hold(sums)
        self._sums = sum_over(sums, rule.world)
        self._passes += 1
        return True

    def _hold(self, sums: dict[str, float]) -> None:
        """Add the gradient of anchor and hold at one state of every fourth sample.

        Timesteps are drawn from all, because samplers visit more than the noisy ones that are matched. As in
        `reward-gradient` the distance is weighted by alpha-bar: early steps may change the content of a motion, late
        ones keep the reference's details.
        """
        rule, count = self._rule, len(self._batch.lengths)
        device = self._batch.lengths.device
        # Numbers of the samples over all processes, of which a quarter is used.
        everyone = torch.arange(self._number % _HELD, count * rule.world.size, _HELD, device=device)
        mine = everyone[torch.div(everyone, count, rounding_mode="floor") == rule.world.rank] % count
        # A process without a sample in this quarter has the same metrics.
        for name in ("loss/anchor", "loss/hold"):
            sums[name] += 0.0
        for sample in mine.split(rule.micro_batch) if len(mine) else ():
            states = self._held.at(sample, torch.full_like(sample, self._passes))
            moved = self._held.predict(states) - self._held.predict_reference(states)
            mask = self._batch.mask[sample]
            square = mean_frames(square_frames(moved, mask), mask)
            signal = rule.policy.schedule.gather("alphas_cumprod", states.timestep, 1)
            parts = {
                "loss/anchor": rule.settings.anchor * roughness(moved, mask),
                "loss/hold": rule.settings.hold * signal * square,
            }
            _add({name: values.sum() / len(everyone) for name, values in parts.items()}, sums)

    def metrics(self) -> dict[str, float]:
        """Return the means of the last pass."""
        losses = [value for name, value in self._sums.items() if name.startswith("loss/")]
        return {"loss/total": sum(losses), **self._sums, **self._known}


def _add(means: Mapping[str, Tensor], sums: dict[str, float]) -> None:
    """Differentiate the losses among `means`, and add all of them to `sums`."""
    torch.stack([value for name, value in means.items() if name.startswith("loss/")]).sum().backward()
    for name, value in means.items():
        sums[name] += float(value.detach())
