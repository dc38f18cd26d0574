"""Loss terms besides the reward: the anchor that keeps predictions smooth, and terms of the algorithms on gradients."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.metrics import joint_speed
from motionkit.motion import MotionBatch
from motionkit.nn import adapters_merged, squared_length
from motionkit.rl import NoiseSource, roughness, stable_hash, valid_dims
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.base import Context
from motionkit.text_to_motion.grpo.algorithms.options import HoldObjective
from motionkit.text_to_motion.grpo.algorithms.supervised import Denoising
from motionkit.text_to_motion.rewards.ask import as_read
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored

_EVERY = 4
_JERK_FLOOR = 1e-3  # m/s^3; keeps the logarithm of a still motion finite
_SPEED_FLOOR = 1e-2  # m/s; the same
_SPREAD_FLOOR = 1e-8  # keeps the logarithm of equal motions finite


def add_hold(
    context: Context,  # policy, reference and processes
    batch: Samples,  # the finished samples, with the states of their rollout
    number: int,  # number of the update; chooses the quarter
    *,
    weight: float,  # of the roughness of the difference
    guidance: float,  # scale of the rollout
    micro_batch: int,  # pairs per forward and backward pass
) -> float:
    """Add the gradient of ``weight * roughness(x0 - x0_reference)`` at visited states; return this process's loss.

    The noise of the policy gradient makes motions jitter long before it changes their content, at the deterministic
    steps too, which reward and KL do not measure. With this term the policy may move away from the reference, but only
    smoothly over time. A quarter of the (sample, step) pairs per update, another quarter each time, is enough.
    """
    policy, reference, world = context.policy, context.reference, context.world
    visited, samples = batch.rollout.visited, len(batch.lengths)
    reference_condition = reference.condition(batch.prompts, batch.condition)
    # Pair p is step p // N of sample p % N, with N samples of all processes, of which a quarter is used.
    everyone = samples * world.size
    pairs = torch.arange(number % _EVERY, visited.num_pairs * world.size, _EVERY, device=batch.lengths.device)
    total = len(pairs)
    pairs = pairs[torch.div(pairs % everyone, samples, rounding_mode="floor") == world.rank]
    pairs = torch.div(pairs, everyone, rounding_mode="floor") * samples + pairs % samples  # the numbers of this process
    loss = 0.0
    for chunk in pairs.split(micro_batch) if len(pairs) else ():  # a process may have no pair of a quarter
        x, timestep, sample = visited.pairs(chunk)
        lengths = batch.lengths[sample]
        x0 = policy.predict(x, timestep, batch.condition.select(sample), lengths, guidance=guidance)
        target = reference.predict(x, timestep, reference_condition.select(sample), lengths, guidance=guidance)
        part = weight * roughness(x0 - target, batch.mask[sample]).sum() / total
        part.backward()
        loss += float(part.detach())
    return loss


class GradientTerms:
    """Minus the reward, jerk and skate, and the distance to the reference.

    Args:
        objective: Weights of the terms.
        context: Policy, reference, rewards, seed, dataset. With a physics reward among them jerk and skate are off
            unless they are set. Without a dataset there is no supervised loss. The negative control draws the sign of
            each sample's reward at random; jerk, skate and the supervised loss are off then.
        guidance: Guidance scale of the rollout.
        merge: Call the network with adapters merged, which is faster at small widths.
    """

    def __init__(self, objective: HoldObjective, context: Context, *, guidance: float, merge: bool = False) -> None:
        self.settings = objective
        self.policy, self.reference, self.world = context.policy, context.reference, context.world
        self.guidance = guidance
        self.noise = NoiseSource(context.seed)
        self.shuffle = context.shuffle
        self._merge = merge
        _require_plain(context.rewards)
        self._denoising = self._supervised(context) if objective.data and not self.shuffle else None
        physics = not any(reward.name == "physics" for reward, _ in context.rewards.terms)
        self.jerk, self.skate = (
            0.0 if self.shuffle else weight if weight is not None else default if physics else 0.0
            for weight, default in ((objective.jerk, objective.own_jerk), (objective.skate, 0.02))
        )

    def merged(self) -> AbstractContextManager[None]:
        """Return the context for calls of the network: with adapters merged if `merge`."""
        return adapters_merged(self.policy.network) if self._merge else nullcontext()

    def negative_reward(self, scored: Scored, number: int) -> Tensor:
        """Return ``-mean_i R_i`` over this process's scored samples; `number` is that of the update."""
        total = scored.total[scored.finite]
        if self.shuffle:
            draws = np.random.default_rng((self.noise.seed, number)).choice((-1.0, 1.0), len(total))
            total = total * torch.as_tensor(draws, dtype=total.dtype, device=total.device)
        return -total.sum() / max(1, len(total))

    def physics(self, motions: MotionBatch) -> Tensor:
        """Return ``w_j mean log(jerk / speed) + w_s mean skate``.

        The ratio does not change with the size of a motion, like the dimensionless jerk (Hogan and Sternad 2009): the
        jerk alone is lowered most easily by moving less. The speed is that of the joints relative to the root, so that
        walking faster does not lower the ratio.
        """
        joints, lengths, fps = motions.joints, motions.lengths, motions.fps
        skate, jerk = motions.physics
        known = skate.isfinite() & jerk.isfinite()
        moving = joints[known]
        speed = joint_speed(moving - moving[:, :, :1], lengths[known], fps)
        rough = (jerk[known] + _JERK_FLOOR).log() - (speed + _SPEED_FLOOR).log()
        return (self.jerk * rough + self.skate * skate[known]).sum() / max(1, int(known.sum()))

    def _supervised(self, context: Context) -> Denoising | None:
        """Return the supervised loss on clips of single actions, as many as there are prompts; None without clips."""
        dataset, split = context.dataset, context.split
        if dataset is None:
            return None
        clips = RealMotions(dataset, split, () if dataset.splits is None else dataset.prompts(split)).clips
        count = min(context.batch, len(clips) // self.world.size * self.world.size)  # an equal number per process
        if not count:
            return None
        crop = dataset.random_crop
        return Denoising(clips, self.policy, batch=count, seed=context.seed, crop=crop, world=self.world)

    def clips(self, number: int) -> dict[str, Tensor]:
        """Return this process's part of the weighted supervised loss as ``data``; empty without one."""
        if self._denoising is None:
            return {}
        with self.merged():
            return {"data": self.settings.data / self.world.size * self._denoising.loss(number)}

    def hold(self, batch: Samples, number: int) -> tuple[Tensor, Tensor]:
        """Return the roughness of ``d = x0 - x0_ref`` and ``abar_t mean d^2``, weighted, at one state of some samples.

        alpha-bar is the share of signal in x_t: near 0 at early steps, which may change the content of a motion, and
        near 1 at late ones, which keep the reference's details. Every second sample is used, the others in the next
        update. Both values are this process's share of the mean over the samples of all processes.
        """
        count = len(batch.lengths)
        total = count * self.world.size
        everyone = torch.arange(number % 2 if total > 1 else 0, total, 2, device=batch.lengths.device)
        rows = everyone[torch.div(everyone, count, rounding_mode="floor") == self.world.rank] % count
        if len(rows) == 0:  # one sample per process, and not in this update
            return torch.zeros((), requires_grad=True), torch.zeros((), requires_grad=True)
        x, timestep = self._noised(batch, rows, number)
        lengths, mask = batch.lengths[rows], batch.mask[rows]
        condition = self.reference.condition(batch.prompts, batch.condition).select(rows)
        with self.merged():
            x0 = self.policy.predict(x, timestep, batch.condition.select(rows), lengths, guidance=self.guidance)
        target = self.reference.predict(x, timestep, condition, lengths, guidance=self.guidance)
        moved = x0 - target  # d, [M, T, D]
        # [M]: alpha-bar of each sample's timestep, then the mean of d^2 over its valid frames and features.
        signal = self.policy.schedule.gather("alphas_cumprod", timestep, 1)
        square = squared_length(moved).masked_fill(~mask, 0.0).sum(1) / valid_dims(mask, moved.shape[-1])
        rough = self.settings.anchor * roughness(moved, mask)
        return rough.sum() / len(everyone), (self.settings.hold * signal * square).sum() / len(everyone)

    def _noised(self, batch: Samples, rows: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Return the finished motions `rows` (``[M]``) noised to a timestep drawn for each, and the timesteps.

        Timesteps are drawn from all, not from the few of the rollout, since other samplers visit others.
        """
        clean = batch.rollout.x0.detach()[rows]
        schedule, count = self.policy.schedule, len(batch.lengths)
        keys = torch.tensor([stable_hash(prompt.key) for prompt in batch.prompts], device=clean.device)[rows]
        draws = np.random.default_rng((self.noise.seed, number)).integers(len(schedule), size=count * self.world.size)
        # Numbers of the samples over all processes, so that draws do not depend on the number of processes.
        numbers = rows + self.world.rank * count
        timestep = torch.as_tensor(draws, device=clean.device)[numbers]
        # Training has the steps from 0 and a held-out measurement step -1: steps from -2 down are unused.
        noise = self.noise.start(-2 - number, keys, numbers, tuple(clean.shape[1:]))
        signal = schedule.gather("alphas_cumprod", timestep, clean.ndim)
        # q(x_t | x_0) = N(sqrt(abar_t) x_0, (1 - abar_t) I), Ho et al. 2020, eq. 4.
        return signal.sqrt() * clean + (1 - signal).sqrt() * noise, timestep


def require_declared(rewards: RewardMix, algorithm: str) -> None:
    """Refuse rewards without a gradient."""
    if without := rewards.without_gradient:
        some = len(without) < len(rewards.terms)
        follows = "mixed follows the gradient of the others and uses the values of this one"
        raise MotionkitError(
            f"the reward {' and the reward '.join(without)} has no gradient.",
            why=f"{algorithm} differentiates every reward, and a plugin has to declare that it can be "
            "differentiated (Component(gradient=True)).",
            fix=f"--algorithm {follows}." if some else "--algorithm awm or grpo needs no gradient.",
        )


def _require_plain(rewards: RewardMix) -> None:
    """Refuse rewards that are standardised within groups."""
    if rewards.normalize != "off":
        raise MotionkitError(
            "reward_mix.normalize = group has no meaning for an algorithm that follows the gradient of rewards.",
            why="the mean of standardised rewards is 0 in every group.",
            fix="--algorithm awm or grpo; or give the rewards weights that suit their scales (reward_mix.calibrate).",
        )


def require_graph(x0: Tensor, algorithm: str) -> None:
    """Refuse predictions without a graph."""
    if not x0.requires_grad:
        raise MotionkitError(
            "the policy's prediction has no gradient in its trained parameters.",
            why=f"it was computed without a graph, and {algorithm} differentiates it.",
            fix="--algorithm awm or grpo needs no graph of the sampler.",
            code=1,
        )


def log_spread(batch: Samples, samples: int) -> Tensor:
    """Return ``log s`` of each of the P prompts, s the spread of its S motions around their mean, ``[P]``.

    ``s^2 = sum_i |x_i - mean_j x_j|^2 / ((S - 1) L D)`` over L valid frames and D normalised features. A motion's
    gradient is along its difference to the others, hence as smooth as they are.

    Args:
        batch: N = P x S samples.
        samples: S, at least 2.
    """
    motions = batch.rollout.x0.unflatten(0, (-1, samples))  # [P, S, T, D]
    mask = batch.mask[::samples]  # [P, T]: motions of one prompt are equally long
    apart = (motions - motions.mean(1, keepdim=True)).square().sum((1, 3)).masked_fill(~mask, 0.0).sum(1)
    variance = apart / ((samples - 1) * valid_dims(mask, motions.shape[-1]))
    spread: Tensor = 0.5 * (variance + _SPREAD_FLOOR).log()
    return spread


def require_gradient(
    reward: Reward,
    motions: MotionBatch,  # with a graph that leads to `x0`
    prompts: list[Prompt],
    x0: Tensor,  # [N, T, D] normalised features of the motions
    algorithm: str,  # name of the algorithm that needs the gradient
) -> None:
    """Refuse a reward whose gradient is missing, zero or not finite."""
    total = reward.score(*as_read(reward, motions, prompts)).total
    known = total[total.isfinite()].sum()
    gradients = torch.autograd.grad(known, x0, retain_graph=True, allow_unused=True) if known.requires_grad else ()
    gradient = next((part for part in gradients if part is not None), None)
    if gradient is None or not bool((gradient.isfinite() & (gradient != 0)).any()):
        kind = "no" if gradient is None else "a zero" if bool(gradient.isfinite().all()) else "no finite"
        raise MotionkitError(
            f"the reward {reward.name} has {kind} gradient in any of the {len(total)} motions of the first step.",
            why=f"{algorithm} follows the gradient of the reward, so nothing can be learnt from this one.",
            fix="--algorithm awm or grpo uses the values of the reward alone.",
            code=1,
        )
