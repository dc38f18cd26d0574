"""GRPO on a motion diffusion policy (Shao et al. 2024, arXiv:2402.03300; for diffusion, Liu et al. 2025, 2505.05470).

Every reverse step in the window is a Gaussian action. With the network predicting x0, its log-ratio is
``s <eps, d> - s^2/2 |d|^2`` with ``d = x0 - x0_old`` and s the step's sensitivity (see `motionkit.rl`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from motionkit import nn as blocks
from motionkit.config import LoraSettings
from motionkit.kernels import physics_sums
from motionkit.policies.base import DiffusionPolicy
from motionkit.rewards.base import Reward
from motionkit.rewards.mix import RewardMix, Scored, refuse_dead
from motionkit.rl import (
    ADVANTAGES,
    DDIM,
    DDPM,
    Advantages,
    NoiseSource,
    Objective,
    StepPlan,
    mix_credit,
    require_eval,
    shuffled,
)
from motionkit.runs import flatten_optimizer, restore_optimizer
from motionkit.text import Prompt
from motionkit.trainers._gradients import FiniteGradients
from motionkit.trainers.grpo._batch import Batch, collect
from motionkit.trainers.grpo._reference import Reference
from motionkit.trainers.grpo._settings import (
    ControlSettings,
    EmaSettings,
    GrpoLoraSettings,
    GrpoOptimSettings,
    ObjectiveSettings,
    RolloutSettings,
    SamplerSettings,
)
from motionkit.trainers.grpo._update import Accumulator, Credit

Tensors = dict[str, dict[str, Tensor]]


class GRPO:
    """The algorithm: a policy, rewards, an optimiser, and `step`.

    The policy's network is trained in place: all weights, or low-rank adapters when `lora` is enabled.

    Args:
        policy: Policy to train.
        rewards: One reward, or several with weights.
        reference: Policy that KL is measured to; the policy as it starts when None.
        rollout: What is sampled before each update.
        sampler: How it is sampled.
        objective: What is maximised.
        optim: Optimiser settings.
        lora: Low-rank adapters, on by default; ``LoraSettings()`` trains all weights.
        ema: Moving average of the weights.
        control: Negative controls.
        seed: Seed of all noise.
        precision: ``fp32``, or ``bf16`` for the network's body.

    Raises:
        MotionkitError: The settings leave nothing to train, or the reference does not match.
    """

    def __init__(
        self,
        policy: DiffusionPolicy,
        rewards: Reward | Sequence[tuple[Reward, float]],
        *,
        reference: DiffusionPolicy | None = None,
        rollout: RolloutSettings | None = None,
        sampler: SamplerSettings | None = None,
        objective: ObjectiveSettings | None = None,
        optim: GrpoOptimSettings | None = None,
        lora: LoraSettings | None = None,
        ema: EmaSettings | None = None,
        control: ControlSettings | None = None,
        seed: int = 0,
        precision: str = "fp32",
    ) -> None:
        self.policy = policy
        self.rewards = RewardMix(rewards if isinstance(rewards, Sequence) else [(rewards, 1.0)])
        self.rollout = rollout or RolloutSettings()
        self.sampler = sampler or SamplerSettings()
        self.objective = objective or ObjectiveSettings()
        self.optim = optim or GrpoOptimSettings()
        self.control = control or ControlSettings()
        self.seed = seed
        lora = lora or GrpoLoraSettings()
        self.plan = step_plan(policy, self.sampler)
        self.plan.require_trainable()
        self.noise = NoiseSource(
            seed, initial="group" if self.rollout.shared_noise else "independent", antithetic=self.rollout.antithetic
        )
        if lora.enabled:
            policy.adapt(r=lora.r, alpha=lora.alpha, dropout=lora.dropout, targets=lora.targets, seed=seed)
        policy.network.eval()
        policy.autocast = torch.bfloat16 if precision == "bf16" else None
        self.trained = _trained(policy.network)
        self.learning_rate = self.optim.learning_rate or (2e-3 if lora.enabled else 1e-4)
        self.optimizer = torch.optim.AdamW(
            [parameter for _, parameter in self.trained],
            lr=self.learning_rate,
            betas=self.optim.betas,
            weight_decay=self.optim.weight_decay,
        )
        average = (ema or EmaSettings()).decay
        self.ema = blocks.EMA(self.trained, average, warmup=True) if average else None
        surrogate = Objective(
            ratio_norm=self.objective.ratio_norm,
            clip_low=self.objective.clip_range,
            clip_high=self.objective.clip_range,
            kl_coef=self.objective.kl_coef,
            on_policy=self.objective.inner_epochs == 1,
        )
        self.updates = 0
        self.gradients = FiniteGradients(self.learning_rate)
        self._accumulator = Accumulator(
            policy,
            Reference(policy, reference),
            surrogate,
            guidance=self.sampler.guidance_scale,
            micro_batch=self.rollout.micro_batch,
            precision=precision,
        )

    def step(self, prompts: Sequence[Prompt]) -> dict[str, float]:
        """Sample the prompts, score the motions, update the policy once per inner epoch.

        Returns:
            Metrics, all defined in `motionkit.tracking`.

        Raises:
            MotionkitError: The first-step audit fails, a reward has no finite score in the first step or returns
                something else than scores, or gradients are not finite several times in a row (exit code 1).
        """
        require_eval(self.policy.network)
        clock = [time.perf_counter()]
        batch = collect(
            self.policy,
            prompts,
            self.plan,
            self.noise,
            group_size=self.rollout.group_size,
            guidance=self.sampler.guidance_scale,
            step=self.updates,
        )
        clock.append(time.perf_counter())
        scored = self.rewards.score(batch.motions, batch.prompts, leave_out=self.updates > 0)
        if self.updates == 0:
            refuse_dead(scored.dead, f"{len(batch.prompts)} motions of the first step")
        skate, jerk = physics_sums(
            batch.motions.joints, batch.lengths, fps=batch.motions.fps, feet=batch.motions.skeleton.feet
        )
        clock.append(time.perf_counter())
        credit, advantages = self._credit(batch, scored)
        metrics = self._update(batch, credit, move=bool(scored.finite.any()))
        clock.append(time.perf_counter())
        self.updates += 1
        metrics |= scored.metrics | _reward_metrics(scored, batch.groups)
        metrics |= {
            "advantage/mean": float(credit.values.mean()),
            "advantage/std": float(credit.values.std()),
            "group/zero_variance": float(advantages.zero_variance) / max(1, int(advantages.groups)),
            "physics/skate": float(skate.nanmean()),
            "physics/jerk": float(jerk.nanmean()),
        }
        names = ("time/rollout", "time/reward", "time/update")
        metrics |= dict(zip(names, (b - a for a, b in pairwise(clock)), strict=True))
        return metrics | {"time/step": clock[-1] - clock[0]}

    def _credit(self, batch: Batch, scored: Scored) -> tuple[Credit, Advantages]:
        settings = self.objective
        estimate = ADVANTAGES[settings.advantage]
        options = {"std_floor": settings.std_floor, "clip": settings.advantage_clip}
        whole = estimate(scored.total, batch.groups, valid=scored.finite, **options)
        if settings.credit == "sample":
            values, valid, bounds, counted = whole.values, None, None, whole
        else:
            valid = scored.valid & scored.finite[:, None]
            counted = estimate(scored.segments, batch.groups, valid=valid, **options)
            values, bounds = counted.values, batch.bounds
            if settings.credit_share > 0:
                values = torch.where(valid, mix_credit(values, whole.values, settings.credit_share), 0.0)
        if self.control.shuffle_advantages:
            values = shuffled(values, self.seed, self.updates, valid=valid)
        return Credit(values, bounds), counted

    def _update(self, batch: Batch, credit: Credit, *, move: bool) -> dict[str, float]:
        epochs = self.objective.inner_epochs
        sums: dict[str, float] = {}
        norm = 0.0
        first: dict[str, float] = {}
        for epoch in range(epochs):
            rate = self._set_rate()
            self.optimizer.zero_grad(set_to_none=True)
            sums = self._accumulator.backward(batch, credit, audit=self.updates == 0 and epoch == 0)
            first = first or sums
            if epoch and 0 < self.objective.kl_stop < _moved(sums):
                break
            if self.objective.anchor:
                sums["anchor"] = self._accumulator.anchor(batch, self.objective.anchor, self.updates)
            parameters = [parameter for _, parameter in self.trained]
            norm = float(nn.utils.clip_grad_norm_(parameters, self.optim.grad_clip or float("inf")))
            if self.gradients.admit(norm) and norm > 0 and move:
                # A batch without any advantage must leave the weights alone; Adam's momentum would move them.
                self.optimizer.step()
            if self.ema is not None:
                self.ema.update()
        if self.objective.kl_coef == 0:
            sums |= self._accumulator.divergence(batch)
            sampled = sums["logp_current_per_dim"] - sums["log_ratio_per_dim"]
            sums["logp_reference_per_dim"] = sampled + sums["reference_ratio_per_dim"]
        return (
            _loss_metrics(sums)
            | {"grad/norm": norm, "grad/left_out": self.gradients.count(), "optim/learning_rate": rate}
            | ({"audit/first_ratio_per_dim": first["audit"]} if "audit" in first else {})
        )

    def _set_rate(self) -> float:
        warm = min(1.0, (self.updates + 1) / self.optim.warmup_steps) if self.optim.warmup_steps else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * warm
        return self.learning_rate * warm

    def averaged(self) -> AbstractContextManager[None]:
        """Put the moving average into the policy for the duration; nothing happens without one."""
        return nullcontext() if self.ema is None else self.ema.applied()

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Return everything a checkpoint needs: trained weights, optimiser, average, counters."""
        tensors, rest = flatten_optimizer(self.optimizer)
        groups: Tensors = {
            "model": self.policy.tensors(),
            "optimizer": tensors,
        }
        if self.ema is not None:
            groups["ema"] = self.ema.tensors()
        counters = {"updates": self.updates, "left_out": self.gradients.in_a_row}
        return groups, {**counters, "optimizer": rest, "ema_updates": self.ema.updates if self.ema else 0}

    @torch.no_grad()
    def load_state(self, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
        """Put back what `state` returned, bit for bit."""
        self.policy.load_tensors(tensors["model"])
        restore_optimizer(self.optimizer, tensors["optimizer"], state["optimizer"])
        if self.ema is not None:
            self.ema.load(tensors["ema"], updates=int(state["ema_updates"]))
        self.updates = int(state["updates"])
        self.gradients.in_a_row = int(state.get("left_out", 0))


def step_plan(policy: DiffusionPolicy, settings: SamplerSettings) -> StepPlan:
    """Return the rollout's reverse steps: stochastic in the window, deterministic outside."""
    window = range(settings.window_start, settings.window_start + settings.window_size)
    sampler = DDPM() if settings.kind == "ddpm" else DDIM(settings.eta)
    return StepPlan.build(
        policy.schedule, sampler, steps=visited(policy, settings.spacing, settings.train_timesteps), window=window
    )


def visited(policy: DiffusionPolicy, spacing: str, count: int) -> list[int]:
    """Return the `count` trained timesteps that a sampler of this spacing visits."""
    schedule = policy.schedule
    return schedule.early(count) if spacing == "early" else schedule.spaced(count)


def _trained(network: nn.Module) -> list[tuple[str, nn.Parameter]]:
    chosen = blocks.adapter_parameters(network) if blocks.has_adapters(network) else list(network.parameters())
    wanted = {id(parameter) for parameter in chosen}
    named = [(name, parameter) for name, parameter in network.named_parameters() if id(parameter) in wanted]
    for _, parameter in named:
        parameter.requires_grad_(True)
    return named


def _reward_metrics(scored: Scored, groups: Tensor) -> dict[str, float]:
    bad = int((~scored.finite).sum())
    known = scored.total[scored.finite]
    if len(known) == 0:
        nan = float("nan")
        return {"reward/mean": nan, "reward/std": nan, "reward/min": nan, "reward/max": nan, "reward/nan": float(bad)}
    spread = torch.stack([scored.total[groups == group].std() for group in groups.unique()])
    return {
        "reward/mean": float(known.mean()),
        "reward/std": float(known.std()),
        "reward/min": float(known.min()),
        "reward/max": float(known.max()),
        "reward/group_std": float(spread.mean()),
        "reward/nan": float(bad),
    }


def _loss_metrics(sums: Mapping[str, float]) -> dict[str, float]:
    return {
        "loss/total": sums["loss"] + sums.get("anchor", 0.0),
        "loss/policy": sums["policy"],
        "loss/kl": sums.get("kl", 0.0),
        "loss/anchor": sums.get("anchor", 0.0),
        "ratio/mean": sums["ratio"],
        "ratio/clip_fraction": sums["clip_fraction"],
        "logp/current_per_dim": sums["logp_current_per_dim"],
        "logp/reference_per_dim": sums["logp_reference_per_dim"],
        "kl/nats_per_dim": sums["kl_per_dim"],
        "kl/nats": sums["kl_nats"],
    }


def _moved(sums: Mapping[str, float]) -> float:
    """Estimate KL(old || new) per dimension: minus the mean log-ratio of the old policy's own samples."""
    return -sums["log_ratio_per_dim"]
