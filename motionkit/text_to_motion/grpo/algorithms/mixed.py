"""Mixed: rewards with a gradient by their gradient, the others by the policy gradient, summed.

The sampler adds noise, ``x_{k+1} = a_k f(x_k; theta) + b_k x_k + sigma_k eps_k``, with a graph through the whole chain.
With eps fixed the derivative of a differentiable reward is an unbiased gradient of its expectation (Kingma and Welling
2013, arXiv:1312.6114, section 2.4). The same steps are Gaussian actions, so at the same samples
``A_i sum_k s_k <eps_k, d f / d theta>`` is the policy gradient of all other rewards (see `grpo`). Its advantages A_i
keep the units of the reward, so that the weights of the rewards mean the same in both parts, and the sum is the
gradient of the expected total with respect to the noisy steps.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from torch import Tensor

from motionkit.rl import Predict, Rollout, StepNoise, graph_rollout, valid_dims
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.base import Algorithm, Context, Load
from motionkit.text_to_motion.grpo.algorithms.credit import Credit, reward_credit
from motionkit.text_to_motion.grpo.algorithms.grpo import ClippedUpdate, grpo
from motionkit.text_to_motion.grpo.algorithms.options import GrpoObjective, GrpoOptions, GrpoRollout, MixedOptions
from motionkit.text_to_motion.grpo.algorithms.reward_gradient import GradientUpdate, chain_load, saves_memory
from motionkit.text_to_motion.grpo.algorithms.terms import GradientTerms, require_gradient, require_graph
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored

_logger = logging.getLogger("motionkit.grpo")


class Mixed(Algorithm):
    """The algorithm ``mixed``; see `motionkit.text_to_motion.grpo.algorithms.base.Algorithm`.

    Rewards that declare no gradient are used by their values. The negative control permutes the advantages and draws
    the sign of each sample's differentiable reward at random; jerk and skate are off.
    """

    graph = True
    passes = 1
    averaged = False

    def __init__(self, options: MixedOptions, **given: Any) -> None:
        context, objective = Context(**given), options.objective
        self.policy, self.rewards, self.world = context.policy, context.rewards, context.world
        self.antithetic = options.rollout.antithetic
        # ratio_norm none: with other weights of the steps the sum would not be the gradient of the expected reward.
        # The anchor is among the terms.
        self.clipped = grpo(
            GrpoOptions(
                rollout=GrpoRollout(**options.rollout.model_dump()),
                sampler=options.sampler,
                objective=GrpoObjective(ratio_norm="none", anchor=0.0),
            ),
            **given,
        )
        self.plan, self.noise = self.clipped.plan, self.clipped.noise
        self.samples, self.guidance = self.clipped.samples, self.clipped.guidance
        self.terms = GradientTerms(objective, context, guidance=self.guidance)
        self.save_memory = saves_memory(objective.save_memory, self.policy, self.plan)
        _log_if_not_mixed(self.rewards)

    def rollout(self, predict: Predict, start: Tensor, noise: StepNoise, number: int) -> Rollout:
        """Sample with the graph on; the noisy steps are kept."""
        plan = self.clipped.plans.at(number)
        done = graph_rollout(
            predict, plan, start, noise, network=self.policy.network, record=True, save_memory=self.save_memory
        )
        require_graph(done.x0, "mixed")
        return done

    def load(self, motions: int) -> Load:
        """Return what the chain asks of the network, and the scored steps that are predicted again."""
        chain = chain_load(motions, len(self.plan), len(self.plan), again=self.save_memory)
        clipped = self.clipped.load(motions)
        larger = chain if chain.calls * chain.rows >= clipped.rows else replace(chain, rows=clipped.rows, calls=1)
        return replace(larger, trained=chain.trained + clipped.trained)

    def update(self, batch: Samples, scored: Scored, number: int) -> MixedUpdate:
        """Split the scores into those with a graph and those without, which become advantages."""
        declared = self.rewards.gradient or (False,) * len(scored.terms)
        for (reward, _), term, able in zip(self.rewards.terms, scored.terms, declared, strict=True):
            if number == 0 and (able or term.gradient):
                require_gradient(reward, batch.motions, batch.prompts, batch.rollout.x0, "mixed")
        surrogate = None
        if not all(term.gradient for term in scored.terms):
            surrogate = ClippedUpdate(self.clipped, batch, self._credit(batch, scored, number), number)
        return MixedUpdate(GradientUpdate(self.terms, batch, scored.part(gradient=True), number), surrogate)

    def _credit(self, batch: Samples, scored: Scored, number: int) -> Credit:
        credit = reward_credit(
            scored.part(gradient=False),
            batch,
            number,
            antithetic=self.antithetic,
            world=self.world,
            shuffle_seed=self.clipped.shuffle_seed,
        )
        # The surrogate is a mean over the S scored steps of log-ratios over the root of the motion's D_i values; times
        # S sqrt(D_i) it is their sum, the log-ratio of the trajectory.
        trajectory = batch.rollout.trajectory
        assert trajectory is not None, "the rollout is recorded"
        dims = valid_dims(batch.mask, trajectory.x_t.shape[-1])
        return Credit(credit.values * trajectory.num_steps * dims.sqrt(), None, credit.metrics)


class MixedUpdate:
    """Two updates on the same samples; see `motionkit.text_to_motion.grpo.algorithms.base.Update`."""

    def __init__(self, gradient: GradientUpdate, surrogate: ClippedUpdate | None) -> None:
        self._gradient = gradient
        self._surrogate = surrogate

    def backward(self) -> bool:
        """Add the gradient of the differentiable rewards, of jerk, skate and hold, then the policy gradient."""
        self._gradient.backward()  # first: it frees the chain
        if self._surrogate is not None:
            self._surrogate.backward()
        return True

    def metrics(self) -> dict[str, float]:
        """Return the losses of both; ``loss/reward`` is that of the differentiable rewards."""
        gradient = self._gradient.metrics()
        gradient["loss/reward"] = gradient.pop("loss/policy")
        if self._surrogate is None:
            return gradient
        surrogate = self._surrogate.metrics()
        return surrogate | gradient | {"loss/total": surrogate["loss/total"] + gradient["loss/total"]}


def _log_if_not_mixed(rewards: RewardMix) -> None:
    if rewards.gradient is None:
        return
    if all(rewards.gradient):
        _logger.info("every reward has a gradient: --algorithm reward-gradient does the same with less work.")
    elif not any(rewards.gradient):
        _logger.info("no reward has a gradient: --algorithm awm or grpo does the same with less work.")
