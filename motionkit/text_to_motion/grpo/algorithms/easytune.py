"""EasyTune: the gradient of the reward of each step's prediction, with no gradient between the steps.

Source: EasyTune (arXiv:2602.07967). A rollout visits x_1 .. x_K without a graph. At each of them the network predicts
the finished motion, ``x0_k = f(sg(x_k), t_k; theta)``. The loss is ``-sum_k w_k R(x0_k)``; the weights sum to 1.
The steps share no graph and are differentiated one after another, so memory is that of one step, whatever their number,
and no step is computed twice. It is for networks whose chain does not fit into memory: on the starter `reward-gradient`
gains more in the same time, by the judge too, since here a step gets no credit for its effect on later steps.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.rl import DDIM, NoiseSource, Predict, Rollout, StepNoise, StepPlan, Visited, rollout
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.base import Algorithm, Context, Load
from motionkit.text_to_motion.grpo.algorithms.options import EasyTuneOptions
from motionkit.text_to_motion.grpo.algorithms.terms import (
    GradientTerms,
    require_declared,
    require_gradient,
    require_graph,
)
from motionkit.text_to_motion.rewards.mix import Scored
from motionkit.training.world import sum_over


class EasyTune(Algorithm):
    """The algorithm ``easytune``; see `motionkit.text_to_motion.grpo.algorithms.base.Algorithm`.

    With a physics reward the options' own jerk and skate terms are off unless they are set. The negative control draws
    the sign of each sample's reward at random; physics terms are off.
    """

    graph = False
    passes = 1
    samples = 1
    averaged = False

    def __init__(self, options: EasyTuneOptions, **given: Any) -> None:
        context, sampler = Context(**given), options.sampler
        require_declared(context.rewards, "easytune")
        policy = self.policy = context.policy
        self.rewards = context.rewards
        self.guidance = sampler.guidance_scale
        self.noise = NoiseSource(context.seed)
        self.terms = GradientTerms(options.objective, context, guidance=self.guidance)
        steps = policy.schedule.visited(sampler.spacing, sampler.train_timesteps)
        self.plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=steps)
        # [K], sums to 1. alpha-bar is the share of signal in x_k.
        signal = policy.schedule.alphas_cumprod[self.plan.timesteps]
        weights = signal if options.objective.step_weight == "signal" else torch.ones_like(signal)
        self.weights: list[float] = (weights / weights.sum()).tolist()

    def rollout(self, predict: Predict, start: Tensor, noise: StepNoise, number: int) -> Rollout:
        """Sample and keep every state."""
        states: list[Tensor] = []

        def seen(x: Tensor, timestep: Tensor) -> Tensor:
            states.append(x)
            return predict(x, timestep)

        done = rollout(seen, self.plan, start, noise, record=False)
        return Rollout(done.x0, None, Visited(torch.stack(states), self.plan.timesteps.to(done.x0.device)))

    def load(self, motions: int) -> Load:
        """Return what a step asks of the network: each state of the rollout is predicted again, with the reward."""
        rows = motions * len(self.plan)
        return Load(rows, rows + motions // 2, motions, states=len(self.plan), scored=True)

    def update(self, batch: Samples, scored: Scored, number: int) -> StepwiseUpdate:
        """Keep the visited states; the scores of the finished motions are for the metrics."""
        result = StepwiseUpdate(self, batch, number)
        if number == 0:
            x0, motions = result.predicted(len(self.plan) - 1)  # the nearest to a finished motion
            require_graph(x0, "easytune")
            for reward, _ in self.rewards.terms:
                require_gradient(reward, motions, batch.prompts, x0, "easytune")
        return result


class StepwiseUpdate:
    """One update of `EasyTune`; see `motionkit.text_to_motion.grpo.algorithms.base.Update`."""

    def __init__(self, rule: EasyTune, batch: Samples, number: int) -> None:
        self._rule = rule
        self._batch = batch
        self._number = number
        self._losses: dict[str, float] = {}

    def predicted(self, position: int) -> tuple[Tensor, MotionBatch]:
        """Return the motions predicted at a step with its graph: normalised ``[N, T, D]``, and as rewards read them."""
        rule, batch, visited = self._rule, self._batch, self._batch.rollout.rest
        assert visited is not None, "the rollout keeps its states"
        timestep = visited.timesteps[position].expand(len(batch.lengths))
        x, policy = visited.x_t[position], rule.policy
        x0 = policy.predict(x, timestep, batch.condition, batch.lengths, guidance=rule.guidance).to(torch.float32)
        features = policy.normalizer.denormalize(x0)
        return x0, MotionBatch(features, batch.lengths, skeleton=policy.skeleton, fps=policy.fps)

    def backward(self) -> bool:
        """Add the gradient of the negative reward, jerk and skate at each step in turn, and of the hold."""
        rule, terms, number = self._rule, self._rule.terms, self._number
        losses: dict[str, float] = defaultdict(float)
        for position, weight in enumerate(rule.weights):
            _, motions = self.predicted(position)
            scored = rule.rewards.score(motions, self._batch.prompts, leave_out=True)
            share = weight / terms.world.size
            parts = {"policy": share * terms.negative_reward(scored, number)}
            if terms.jerk or terms.skate:
                parts["physics"] = share * terms.physics(motions)
            torch.stack(list(parts.values())).sum().backward()
            for name, value in parts.items():
                losses[name] += float(value.detach())
        anchor, hold = terms.hold(self._batch, number)
        torch.add(anchor, hold).backward()
        losses |= {"anchor": float(anchor.detach()), "hold": float(hold.detach())}
        for name, value in terms.clips(number).items():
            value.backward()
            losses[name] = float(value.detach())
        self._losses = sum_over({f"loss/{name}": value for name, value in losses.items()}, terms.world)
        return True

    def metrics(self) -> dict[str, float]:
        """Return the losses, weighted means over the steps."""
        return {"loss/total": sum(self._losses.values()), **self._losses}
