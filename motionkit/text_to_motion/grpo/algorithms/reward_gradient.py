"""Reward gradient: the reward is differentiated through the deterministic sampler.

Sources: Clark et al. 2023 (DRaFT, arXiv:2309.17400), Prabhudesai et al. 2023 (AlignProp, arXiv:2310.03739). A sample
``x_0 = ODE(x_T; theta)`` is a function of the parameters, so the gradient of ``-mean_i R(x_0^i)`` is exact: there are
no advantages and no log-probabilities. A prompt is sampled more than once only for `objective.diversity`, the gradient
of the spread of its motions through the same chain.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl import DDIM, NoiseSource, Predict, Rollout, StepNoise, StepPlan, graph_rollout
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.base import Algorithm, Context, Load
from motionkit.text_to_motion.grpo.algorithms.options import GradientOptions
from motionkit.text_to_motion.grpo.algorithms.terms import (
    GradientTerms,
    log_spread,
    require_declared,
    require_gradient,
    require_graph,
)
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import Scored
from motionkit.training.world import sum_over

_LARGE = 5_000_000  # more parameters: activations are recomputed in the backward pass
_LONG = 10  # more steps: the same


class RewardGradient(Algorithm):
    """The algorithm ``reward-gradient``; see `motionkit.text_to_motion.grpo.algorithms.base.Algorithm`.

    With a physics reward the options' jerk and skate terms are off unless they are set. The negative control draws the
    sign of each sample's reward at random; physics and diversity are off.
    """

    graph = True
    passes = 1
    averaged = False

    def __init__(self, options: GradientOptions, **given: Any) -> None:
        context, objective, sampler = Context(**given), options.objective, options.sampler
        require_declared(context.rewards, "reward-gradient")
        policy = self.policy = context.policy
        self.rewards = context.rewards
        self.settings = objective
        self.samples = options.rollout.samples
        self.guidance = sampler.guidance_scale
        self.jitter = sampler.jitter
        self.noise = NoiseSource(context.seed)
        steps = policy.schedule.visited(sampler.spacing, sampler.train_timesteps)
        self.plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=steps)
        self.save_memory = saves_memory(objective.save_memory, policy, self.plan)
        self.terms = GradientTerms(
            objective,
            context,
            guidance=self.guidance,
            # Merging is faster for small networks only.
            merge=not self.save_memory and not is_large(policy),
        )
        if objective.chain != "all" and objective.chain_steps > len(self.plan):
            raise MotionkitError(
                f"objective.chain_steps = {objective.chain_steps} is more than the {len(self.plan)} sampling steps.",
                fix="set it to fewer, or --train-timesteps to more.",
            )
        if objective.diversity and self.samples == 1:
            raise MotionkitError(
                "objective.diversity needs two motions per prompt, and rollout.samples is 1.",
                fix="--set rollout.samples=2, or leave objective.diversity at 0.",
            )
        self.diversity = 0.0 if context.shuffle else objective.diversity

    def rollout(self, predict: Predict, start: Tensor, noise: StepNoise, number: int) -> Rollout:
        """Sample with the graph on; with `jitter` at other timesteps each time, so that all of them are trained."""
        plan = self.plan
        if self.jitter:
            draw = np.random.default_rng((self.noise.seed, number, 1))
            steps = self.policy.schedule.drawn_around(plan.timesteps.tolist(), draw)
            plan = StepPlan.build(self.policy.schedule, DDIM(0.0), steps=steps)
        with self.calling():
            done = graph_rollout(
                predict,
                plan,
                start,
                noise,
                network=self.policy.network,
                chain=self.settings.chain,
                length=self.settings.chain_steps,
                save_memory=self.save_memory,
            )
        require_graph(done.x0, "reward-gradient")
        return done

    def calling(self) -> AbstractContextManager[None]:
        """Return the context in which adapters are merged if that is faster."""
        return self.terms.merged()

    def load(self, motions: int) -> Load:
        """Return what a step asks of the network; half of the samples are predicted again to hold the policy."""
        steps = self.settings.chain_steps if self.settings.chain == "last" else len(self.plan)
        return chain_load(motions, steps, len(self.plan), again=self.save_memory)

    def update(self, batch: Samples, scored: Scored, number: int) -> GradientUpdate:
        """Keep the scores, which carry the graph."""
        if number == 0:
            for reward, _ in self.rewards.terms:
                require_gradient(reward, batch.motions, batch.prompts, batch.rollout.x0, "reward-gradient")
        diversity = self.diversity * log_spread(batch, self.samples).mean() if self.diversity else None
        return GradientUpdate(self.terms, batch, scored, number, diversity)


class GradientUpdate:
    """One update by the gradient of scores that carry a graph; see `base.Update`."""

    def __init__(
        self, terms: GradientTerms, batch: Samples, scored: Scored, number: int, diversity: Tensor | None = None
    ) -> None:
        self._terms, self._batch, self._scored, self._number = terms, batch, scored, number
        self._diversity = diversity
        self._losses: dict[str, float] = {}

    def backward(self) -> bool:
        """Add the gradient of the negative mean reward, of jerk, skate and diversity, and of the hold."""
        terms = self._terms
        losses = {"policy": terms.negative_reward(self._scored, self._number)}
        if terms.jerk or terms.skate:
            losses["physics"] = terms.physics(self._batch.motions)
        if self._diversity is not None:
            losses["diversity"] = -self._diversity
        # The hold has another graph; differentiating the chain's first keeps the peak memory at one of the two.
        losses = {name: value / terms.world.size for name, value in losses.items()}
        total = torch.stack(list(losses.values())).sum()
        if total.requires_grad:  # not without a reward with a gradient and without physics
            total.backward()
        losses["anchor"], losses["hold"] = terms.hold(self._batch, self._number)
        torch.add(losses["anchor"], losses["hold"]).backward()
        for name, value in terms.clips(self._number).items():
            losses[name] = value
            value.backward()
        shown = {f"loss/{name}": float(value.detach()) for name, value in losses.items()}
        self._losses = sum_over(shown, terms.world)
        return True

    def metrics(self) -> dict[str, float]:
        """Return the losses."""
        return {"loss/total": sum(self._losses.values()), **self._losses}


def chain_load(motions: int, steps: int, total: int, *, again: bool) -> Load:
    """Return the load of a chain whose last `steps` of `total` have a graph, or are computed `again` to have one."""
    sampled = motions * (total if again else total - steps)
    return Load(sampled, motions * steps + motions // 2, motions, 1 if again else steps, total, scored=True)


def saves_memory(choice: str, policy: DiffusionPolicy, plan: StepPlan) -> bool:
    """Return whether steps are recomputed in the backward pass; `choice` is ``on``, ``off`` or ``auto``."""
    return is_large(policy) or len(plan) > _LONG if choice == "auto" else choice == "on"


def is_large(policy: DiffusionPolicy) -> bool:
    """Return whether the network is too large to store the activations of a chain."""
    return sum(parameter.numel() for parameter in policy.network.parameters()) > _LARGE
