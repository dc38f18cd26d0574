"""Reward gradient: the reward is differentiated through the deterministic sampler.

Sources: Clark et al. 2023 (DRaFT, arXiv:2309.17400), Prabhudesai et al. 2023 (AlignProp, arXiv:2310.03739). A sample
``x_0 = ODE(x_T; theta)`` is a function of the parameters, so the gradient of ``-mean_i R(x_0^i)`` is exact: there are
no groups, no advantages and no log-probabilities.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.evaluation import Samples
from motionkit.kernels import physics_sums
from motionkit.policies.base import DiffusionPolicy
from motionkit.rewards.base import Reward
from motionkit.rewards.mix import RewardMix, Scored
from motionkit.rl import (
    DDIM,
    NoiseSource,
    Predict,
    Rollout,
    StepNoise,
    StepPlan,
    graph_rollout,
    stable_hash,
    valid_dims,
)
from motionkit.trainers._world import OneProcess, World
from motionkit.trainers.grpo._reference import Reference
from motionkit.trainers.grpo.algorithms._hold import roughness
from motionkit.trainers.grpo.algorithms.options import GradientOptions

_JERK_FLOOR = 1e-3  # m/s^3; keeps the logarithm of a motion that stands still finite
_LARGE = 5_000_000  # parameters from which a step's activations are computed twice rather than kept
_LONG = 10  # steps from which they are


class RewardGradient:
    """The algorithm ``reward-gradient``; see `motionkit.trainers.grpo.algorithms.Algorithm`.

    Args:
        options: How the policy is sampled, and what is minimised beside the negative reward.
        policy: The policy that is trained.
        reference: What the hold is measured to.
        rewards: The rewards, which must be differentiable. With a physics reward among them the options' own jerk and
            skate terms are off unless they are set.
        seed: Seed of all noise.
        precision: Not needed; every algorithm is given it.
        shuffle: Negative control: the sign of each sample's reward is drawn at random, and physics terms are off.
        world: The processes that train together.

    Raises:
        MotionkitError: The chain is longer than the rollout.
    """

    graph = True
    passes = 1
    samples = 1
    averaged = False

    def __init__(
        self,
        options: GradientOptions,
        *,
        policy: DiffusionPolicy,
        reference: Reference,
        rewards: RewardMix,
        seed: int = 0,
        precision: str = "fp32",
        shuffle: bool = False,
        world: World | None = None,
    ) -> None:
        objective, sampler = options.objective, options.sampler
        self.policy = policy
        self.reference = reference
        self.rewards = rewards
        self.settings = objective
        self.guidance = sampler.guidance_scale
        self.noise = NoiseSource(seed)
        self.world = world or OneProcess()
        self.shuffle = shuffle
        steps = policy.schedule.visited(sampler.spacing, sampler.train_timesteps)
        self.plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=steps)
        if objective.chain != "all" and objective.chain_steps > len(self.plan):
            raise MotionkitError(
                f"objective.chain_steps = {objective.chain_steps} is more than the {len(self.plan)} sampling steps.",
                fix="set it to fewer, or --train-timesteps to more.",
            )
        physics = not any(reward.name == "physics" for reward, _ in rewards.terms)
        self.jerk, self.skate = (
            0.0 if shuffle else weight if weight is not None else default if physics else 0.0
            for weight, default in ((objective.jerk, 0.03), (objective.skate, 0.02))
        )
        size = sum(parameter.numel() for parameter in policy.network.parameters())
        auto = size > _LARGE or len(self.plan) > _LONG
        self.save_memory = auto if objective.save_memory == "auto" else objective.save_memory == "on"

    def rollout(self, predict: Predict, start: Tensor, noise: StepNoise, number: int) -> Rollout:
        """Sample with the graph on; the state of one step, another each time, is kept for the hold."""
        done = graph_rollout(
            predict,
            self.plan,
            start,
            noise,
            network=self.policy.network,
            chain=self.settings.chain,
            length=self.settings.chain_steps,
            keep=() if number % 2 else (number // 2 % len(self.plan),),
            save_memory=self.save_memory,
        )
        if not done.x0.requires_grad:
            raise MotionkitError(
                "the policy's prediction has no gradient in its trained parameters.",
                why="it was computed without a graph, and reward-gradient differentiates it.",
                fix="--algorithm grpo needs no graph of the sampler.",
                code=1,
            )
        return done

    def update(self, batch: Samples, scored: Scored, number: int) -> GradientUpdate:
        """Take the scores, which carry the graph.

        Raises:
            MotionkitError: In the first update, a reward whose gradient is zero or not finite everywhere (exit code 1).
        """
        if number == 0:
            for reward, _ in self.rewards.terms:
                _require_gradient(reward, batch)
        return GradientUpdate(self, batch, scored, number)


class GradientUpdate:
    """One update of `RewardGradient`; see `motionkit.trainers.grpo.algorithms.Update`."""

    def __init__(self, rule: RewardGradient, batch: Samples, scored: Scored, number: int) -> None:
        self._rule = rule
        self._batch = batch
        self._scored = scored
        self._number = number
        self._losses: dict[str, float] = {}

    def backward(self) -> bool:
        """Add the gradient of the negative mean reward, of jerk and skate, and of the hold."""
        rule = self._rule
        losses = {"policy": self._negative_reward()}
        if rule.jerk or rule.skate:
            losses["physics"] = self._physics()
        # The hold has a graph of its own; freeing the chain's first keeps the peak at one of the two.
        total = torch.stack(list(losses.values())).sum() / rule.world.size
        total.backward()
        losses["anchor"], losses["hold"] = self._hold()
        torch.add(losses["anchor"], losses["hold"]).div(rule.world.size).backward()
        self._losses = {f"loss/{name}": float(value.detach()) for name, value in losses.items()}
        return True

    def metrics(self) -> dict[str, float]:
        """Return the losses."""
        return {"loss/total": sum(self._losses.values()), **self._losses}

    def _negative_reward(self) -> Tensor:
        """Return ``-mean_i R_i`` over the samples that could be scored."""
        total = self._scored.total[self._scored.finite]
        if self._rule.shuffle:
            draws = np.random.default_rng((self._rule.noise.seed, self._number)).choice((-1.0, 1.0), len(total))
            total = total * torch.as_tensor(draws, dtype=total.dtype, device=total.device)
        return -total.sum() / max(1, len(total))

    def _physics(self) -> Tensor:
        """Return ``w_j mean log(jerk) + w_s mean skate`` of the finished motions."""
        rule, motions = self._rule, self._batch.motions
        skate, jerk = physics_sums(motions.joints, motions.lengths, fps=motions.fps, feet=motions.skeleton.feet)
        known = skate.isfinite() & jerk.isfinite()
        terms = rule.jerk * (jerk + _JERK_FLOOR).log() + rule.skate * skate
        return terms[known].sum() / max(1, int(known.sum()))

    def _hold(self) -> tuple[Tensor, Tensor]:
        """Return the roughness of ``d = x0 - x0_ref`` and ``abar_t mean d^2``, weighted, at one state per sample.

        alpha-bar is the share of signal in x_t: near 0 where a motion is decided and near 1 where its details are
        made. The early steps are free to change what a motion shows, the late ones keep the reference's details.
        """
        rule, batch = self._rule, self._batch
        x, timestep = self._visited() if self._number % 2 == 0 else self._anywhere()
        other = rule.reference.condition(batch.prompts, batch.condition)
        x0 = rule.policy.predict(x, timestep, batch.condition, batch.lengths, guidance=rule.guidance)
        aim = rule.reference.predict(x, timestep, other, batch.lengths, guidance=rule.guidance)
        moved = x0 - aim  # d, [N, T, D]
        # [N]: alpha-bar of each sample's own timestep, then the mean of d^2 over its valid frames and features.
        signal = rule.policy.schedule.alphas_cumprod.to(x.device, torch.float32)[timestep]
        square = moved.square().sum(-1).masked_fill(~batch.mask, 0.0).sum(1) / valid_dims(batch.mask, moved.shape[-1])
        rough = rule.settings.anchor * roughness(moved, batch.mask)
        return rough.mean(), (rule.settings.hold * signal * square).mean()

    def _visited(self) -> tuple[Tensor, Tensor]:
        """Return the kept states of the rollout, ``[N, T, D]``, and their timestep, ``[N]``."""
        rest = self._batch.rollout.rest
        assert rest is not None, "a graph rollout keeps its states"
        return rest.x_t[0], rest.timesteps.expand(len(self._batch.lengths))

    def _anywhere(self) -> tuple[Tensor, Tensor]:
        """Return the finished motions noised to a timestep drawn for each: what other samplers visit is held too."""
        rule, batch = self._rule, self._batch
        clean = batch.rollout.x0.detach()
        count, schedule = len(clean), rule.policy.schedule
        keys = torch.tensor([stable_hash(prompt.key) for prompt in batch.prompts], device=clean.device)
        numbers = torch.arange(count, device=clean.device)
        draws = np.random.default_rng((rule.noise.seed, self._number)).integers(
            len(schedule), size=count * rule.world.size
        )
        mine = draws[rule.world.rank * count :][:count]
        timestep = torch.as_tensor(mine, device=clean.device)
        # Training steps count from 0 and a held-out measurement is step -1: steps from -2 down are free.
        noise = rule.noise.start(-2 - self._number, keys, numbers, tuple(clean.shape[1:]))
        signal = schedule.alphas_cumprod.to(clean.device, torch.float32)[timestep].view(-1, 1, 1)
        # q(x_t | x_0) = N(sqrt(abar_t) x_0, (1 - abar_t) I), Ho et al. 2020, eq. 4.
        return signal.sqrt() * clean + (1 - signal).sqrt() * noise, timestep


def _require_gradient(reward: Reward, batch: Samples) -> None:
    """Differentiate a reward in the finished motions once, to see that it can be.

    Raises:
        MotionkitError: The gradient is missing, zero or not finite for every sample (exit code 1).
    """
    total = reward.score(batch.motions, batch.prompts).total
    known = total[total.isfinite()].sum()
    found = (
        torch.autograd.grad(known, batch.rollout.x0, retain_graph=True, allow_unused=True)
        if known.requires_grad
        else ()
    )
    gradient = next((one for one in found if one is not None), None)
    if gradient is None or not bool((gradient.isfinite() & (gradient != 0)).any()):
        what = "no" if gradient is None else "a zero" if bool(gradient.isfinite().all()) else "no finite"
        raise MotionkitError(
            f"the reward {reward.name} has {what} gradient in any of the {len(total)} motions of the first step.",
            why="reward-gradient follows the gradient of the reward; nothing can be learnt from this one.",
            fix="--algorithm grpo uses the values of the reward alone.",
            code=1,
        )
