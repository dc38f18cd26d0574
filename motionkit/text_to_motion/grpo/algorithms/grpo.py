"""GRPO: the clipped surrogate on the Gaussian reverse steps of a diffusion policy, with an exact KL.

Sources: Shao et al. 2024 (arXiv:2402.03300); for diffusion, Liu et al. 2025 (arXiv:2505.05470). Every reverse step in
the window is a Gaussian action. The network predicts x0, so its log-ratio is ``s <eps, d> - s^2/2 |d|^2`` with
``d = x0 - x0_old`` and s the step's sensitivity (see `motionkit.rl`). `flow_grpo` is the same with the samplers of flow
models.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl import (
    CPS,
    DDIM,
    DDPM,
    DanceSDE,
    FlowSDE,
    LowPass,
    NoiseSource,
    Objective,
    Precision,
    Predict,
    Rollout,
    Sampler,
    Schedule,
    StepNoise,
    StepPlan,
    Surrogate,
    audit_ratio,
    rollout,
)
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.base import Algorithm, Context, Load
from motionkit.text_to_motion.grpo.algorithms.credit import Credit, assign_credit
from motionkit.text_to_motion.grpo.algorithms.options import FlowOptions, GrpoOptions, WindowSampler
from motionkit.text_to_motion.grpo.algorithms.terms import add_hold
from motionkit.text_to_motion.rewards.mix import Scored
from motionkit.training.steps import State, Stateful
from motionkit.training.world import sum_over

_FIRST = 1.0
_LIMITS = (1e-6, 1e6)
_SAMPLERS: dict[str, Callable[[float], Sampler]] = {"flow-sde": FlowSDE, "dance-sde": DanceSDE, "cps": CPS}
"""Samplers of `flow_grpo` by the option ``sampler.kind``."""
_MEASURE_EVERY = 8  # without a KL term, every 8th pair is enough to log the KL


class KLCoefficient:
    """Weight of the KL in the loss: PPO's adaptive penalty (Schulman et al. 2017, arXiv:1707.06347, section 4).

    After an update whose KL is above 1.5 times the target the coefficient doubles, below the target over 1.5 it halves.
    The paper measures the KL to the policy before the update; here it is the KL to the reference.

    Args:
        coefficient: The fixed value, or with a target the first one (0: 1).
        target: Nats per valid value and step; 0 keeps the coefficient.
    """

    def __init__(self, coefficient: float, target: float) -> None:
        self.adaptive = target > 0
        self.target = target
        self.value = coefficient or (_FIRST if self.adaptive else 0.0)

    def adapt(self, kl: float) -> None:
        """Move the coefficient after an update that measured `kl` nats per valid value and step."""
        factor = 2.0 if kl > 1.5 * self.target else 0.5 if kl < self.target / 1.5 else 1.0
        if self.adaptive:
            self.value = min(max(self.value * factor, _LIMITS[0]), _LIMITS[1])

    def state(self) -> State:
        """Return the coefficient."""
        return State(values={"coefficient": self.value})

    def load_state(self, state: State) -> None:
        """Restore it."""
        self.value = float(state.values["coefficient"])


class Plans:
    """The plan of every update, a function of its number.

    A ``sliding`` window (MixGRPO, Li et al. 2025, arXiv:2507.21802) moves `window_shift` steps towards the clean end
    every `window_every` updates and starts over if it would not fit. An ``snr`` window takes the noisiest steps whose
    summed information is at most `window_share` of that of all steps. The information of a step is
    ``s^2 = (c_x0 / sigma)^2``: twice the KL in nats of a change of its prediction by one.

    Args:
        schedule: The policy's schedule.
        sampler: Sampler of the stochastic steps.
        settings: Steps and window.
        ode_steps: Steps at the clean end that are always deterministic; at least the last one is.
    """

    def __init__(self, schedule: Schedule, sampler: Sampler, settings: WindowSampler, *, ode_steps: int = 1) -> None:
        self._steps = schedule.visited(settings.spacing, settings.train_timesteps)
        self._schedule, self._sampler = schedule, sampler
        self._every = settings.window_every
        free = max(0, len(self._steps) - max(1, ode_steps))
        windows = {"fixed": self._fixed, "sliding": self._sliding, "snr": self._snr}[settings.window](settings, free)
        self._plans = [self._plan(window) for window in windows]
        for plan in self._plans:
            plan.require_trainable()

    def at(self, number: int) -> StepPlan:
        """Return the plan of the update after `number` completed ones."""
        return self._plans[number // self._every % len(self._plans)]

    def __iter__(self) -> Iterator[StepPlan]:
        """Iterate over the different plans, in the order of updates."""
        return iter(self._plans)

    def _plan(self, window: Iterable[int]) -> StepPlan:
        return StepPlan.build(self._schedule, self._sampler, steps=self._steps, window=window)

    def _fixed(self, settings: WindowSampler, free: int) -> list[range]:
        window = range(settings.window_start, settings.window_start + settings.window_size)
        if len(self._steps) - free > 1 and window.stop > free:
            raise self._too_long(settings, free)
        return [window]

    def _sliding(self, settings: WindowSampler, free: int) -> list[range]:
        size = settings.window_size
        starts = range(settings.window_start, free - size + 1, settings.window_shift)
        if not starts:
            raise self._too_long(settings, free)
        return [range(start, start + size) for start in starts]

    def _snr(self, settings: WindowSampler, free: int) -> list[range]:
        information = self._plan(range(free)).sensitivity[:free].square()
        shares = (information.cumsum(0) / information.sum()).tolist()
        count = sum(share <= settings.window_share for share in shares)
        if not count:
            first = shares[0] if shares else float("nan")
            raise MotionkitError(
                "the window has no step to train.",
                why=f"the noisiest step alone has {first:.2g} of the information of all stochastic steps, and "
                f"sampler.window_share is {settings.window_share:g}.",
                fix=f"set sampler.window_share to at least {first:.2g}, or sampler.window to fixed.",
            )
        return [range(count)]

    def _too_long(self, settings: WindowSampler, free: int) -> MotionkitError:
        count = len(self._steps)
        return MotionkitError(
            f"a window of {settings.window_size} steps from step {settings.window_start} on does not fit.",
            why=f"of the {count} steps of a rollout the last {count - free} add no noise.",
            fix=f"sampler.window_start and sampler.window_size together at most {free}, fewer sampler.ode_steps, "
            "or more --train-timesteps.",
        )


def grpo(options: GrpoOptions, **given: Any) -> Clipped:
    """Return the algorithm ``grpo``; the keywords are those of `Context`."""
    context, sampler = Context(**given), options.sampler
    process = DDPM() if sampler.kind == "ddpm" else DDIM(sampler.eta)
    return Clipped(options, context, Plans(context.policy.schedule, process, sampler))


class Clipped(Algorithm):
    """The algorithms ``grpo`` and ``flow-grpo``; see `motionkit.text_to_motion.grpo.algorithms.base.Algorithm`.

    Losses are additive over micro-batches, so their size does not change the update. The negative control permutes the
    advantages.
    """

    graph = False
    averaged = False

    def __init__(self, options: GrpoOptions | FlowOptions, context: Context, plans: Plans) -> None:
        objective, sampler, rollout, seed = options.objective, options.sampler, options.rollout, context.seed
        self.context = context
        self.policy, self.reference, self.world = context.policy, context.reference, context.world
        self.settings = objective
        self.guidance = sampler.guidance_scale
        self.samples = rollout.group_size
        self.low_pass = LowPass(rollout.low_pass, self.policy.fps) if rollout.low_pass else None
        self.noise = NoiseSource(
            seed,
            initial="group" if rollout.shared_noise else "independent",
            antithetic=rollout.antithetic,
            low_pass=self.low_pass,
        )
        self.micro_batch = rollout.micro_batch
        self.precision: Precision = "bfloat16" if context.precision == "bf16" else "float32"
        self.shuffle_seed = seed if context.shuffle else None
        self.passes = objective.inner_epochs
        self.plans = plans
        self.plan = plans.at(0)
        self.kl = KLCoefficient(objective.kl_coef, objective.kl_target)
        high = objective.clip_range if objective.clip_high is None else objective.clip_high
        self.surrogate = Objective(
            ratio_norm=objective.ratio_norm,
            surrogate=Surrogate(objective.clip_range, high, on_policy=objective.inner_epochs == 1),
        )

    def rollout(self, predict: Predict, start: Tensor, noise: StepNoise, number: int) -> Rollout:
        """Sample and keep all visited states."""
        return rollout(predict, self.plans.at(number), start, noise)

    def update(self, batch: Samples, scored: Scored, number: int) -> ClippedUpdate:
        """Compute the advantages of a batch."""
        credit = assign_credit(scored, batch, self.settings, number, world=self.world, shuffle_seed=self.shuffle_seed)
        return ClippedUpdate(self, batch, credit, number)

    def every_plan(self) -> Iterable[StepPlan]:
        """Return the different plans of rollouts."""
        return self.plans

    def load(self, motions: int) -> Load:
        """Return what a step asks of the network: a quarter of all states is predicted again to hold the policy."""
        pairs, states = motions * len(self.plan.trainable), motions * len(self.plan)
        held = states // 4 if self.settings.anchor else 0
        kept = len(self.plan) + 2 * len(self.plan.trainable)  # and noise and prediction of the scored steps
        return Load(states + held, self.passes * (pairs + held), min(self.micro_batch, pairs), states=kept)

    def parts(self) -> dict[str, Stateful]:
        """Return its part of a checkpoint: the coefficient of the KL if it is adapted."""
        return {"kl": self.kl} if self.kl.adaptive else {}


class ClippedUpdate:
    """One update of `Clipped`; see `motionkit.text_to_motion.grpo.algorithms.base.Update`."""

    def __init__(self, rule: Clipped, batch: Samples, credit: Credit, number: int) -> None:
        self._rule = rule
        assert batch.rollout.trajectory is not None, "the rollout is recorded"
        self._batch = batch
        self._trajectory = batch.rollout.trajectory
        self._credit = credit
        self._number = number
        self._objective = replace(rule.surrogate, kl_coef=rule.kl.value)
        self._condition = rule.reference.condition(batch.prompts, batch.condition)
        self._audit: float | None = None
        self._sums: dict[str, float] = {}
        self._passes = 0

    def backward(self) -> bool:
        """Add the gradient of surrogate, KL and hold over all (sample, timestep) pairs, a micro-batch at a time."""
        rule, settings = self._rule, self._rule.settings
        first = self._passes == 0
        self._passes += 1
        self._sums = self._surrogate(audit=first and self._number == 0)
        if not first and 0 < settings.kl_stop < _moved(self._sums):
            return False
        if settings.anchor and self._batch.rollout.rest is not None:
            hold = add_hold(
                rule.context,
                self._batch,
                self._number,
                weight=settings.anchor,
                guidance=rule.guidance,
                micro_batch=rule.micro_batch,
            )
            self._sums |= sum_over({"anchor": hold}, rule.world)
        return True

    def _surrogate(self, *, audit: bool) -> dict[str, float]:
        """Return means over all pairs, by the names of `sums` of `motionkit.rl.Objective`, and ``loss``."""
        rule, batch, credit = self._rule, self._batch, self._credit
        total = self._trajectory.num_pairs * rule.world.size
        sums: dict[str, float] = defaultdict(float)
        worst = 0.0
        pairs = torch.arange(self._trajectory.num_pairs, device=batch.lengths.device)
        for chunk in pairs.split(rule.micro_batch):
            rows = self._trajectory.pairs(chunk)
            lengths, condition = batch.lengths[rows.sample], batch.condition.select(rows.sample)
            x0 = rule.policy.predict(rows.x_t, rows.timestep, condition, lengths, guidance=rule.guidance)
            terms = self._objective(
                rows,
                x0,
                credit.values[rows.sample],
                batch.mask[rows.sample],
                total=total,
                bounds=None if credit.bounds is None else credit.bounds[rows.sample],
                x0_reference=self._reference(chunk) if self._objective.kl_coef > 0 else None,
                explored=None if rule.low_pass is None else partial(rule.low_pass, lengths=lengths),
            )
            if audit:
                table = audit_ratio(terms.log_ratio_per_dim, rows.sensitivity, rows.timestep, rule.precision)
                self._audit = worst = max(worst, *table.values())
            terms.loss.backward()
            sums["loss"] += float(terms.loss.detach())
            for name, value in terms.sums.items():
                sums[name] += float(value)
        return sum_over(sums, rule.world)

    def _reference(self, chunk: Tensor) -> Tensor:
        """Return the reference's predictions at the pairs `chunk`, ``[M, T, D]``."""
        rows, condition = self._trajectory.pairs(chunk), self._condition
        lengths = self._batch.lengths[rows.sample]
        return self._rule.reference.predict(
            rows.x_t, rows.timestep, condition.select(rows.sample), lengths, guidance=self._rule.guidance
        )

    def metrics(self) -> dict[str, float]:
        """Return the means of the last pass, and adapt the coefficient of the KL to them."""
        sums, kl = dict(self._sums), self._rule.kl
        adapted = {"kl/coefficient": kl.value} if kl.adaptive else {}
        if kl.adaptive:
            kl.adapt(sums["kl_per_dim"])
        if self._objective.kl_coef == 0:
            sums |= self._divergence()
            sampled = sums["logp_current_per_dim"] - sums["log_ratio_per_dim"]
            sums["logp_reference_per_dim"] = sampled + sums["reference_ratio_per_dim"]
        audit = {} if self._audit is None else {"audit/first_ratio_per_dim": self._audit}
        return _loss_metrics(sums) | self._credit.metrics | audit | adapted

    @torch.no_grad()
    def _divergence(self) -> dict[str, float]:
        """Measure the KL to the reference on every 8th pair, if it is not part of the loss.

        Returns ``kl_per_dim``, ``kl_nats`` and ``reference_ratio_per_dim`` (log-probability under the reference minus
        that under the policy that sampled), means over the measured pairs.
        """
        rule, batch = self._rule, self._batch
        pairs = torch.arange(0, self._trajectory.num_pairs, _MEASURE_EVERY, device=batch.lengths.device)
        sums: dict[str, float] = defaultdict(float)
        for chunk in pairs.split(rule.micro_batch):
            rows = self._trajectory.pairs(chunk)
            terms = rule.surrogate(
                rows,
                rows.x0_old,
                torch.zeros(len(rows), device=chunk.device),
                batch.mask[rows.sample],
                total=len(pairs) * rule.world.size,
                x0_reference=self._reference(chunk),
            )
            for name in ("kl_per_dim", "kl_nats"):
                sums[name] += float(terms.sums[name])
            # Log-probabilities differ more between noise levels than between policies: only the difference is used.
            ratio = terms.sums["logp_reference_per_dim"] - terms.sums["logp_current_per_dim"]
            sums["reference_ratio_per_dim"] += float(ratio)
        return sum_over(sums, rule.world)


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
    """Estimate KL(old || new) per dimension: minus the mean log-ratio of samples of the old policy."""
    return -sums["log_ratio_per_dim"]


def flow_grpo(options: FlowOptions, **given: Any) -> Clipped:
    """Return ``flow-grpo``: GRPO whose rollouts follow the stochastic differential equation of a flow model.

    Liu et al. 2025 (arXiv:2505.05470). A diffusion policy that predicts x0 is a flow model in other coordinates
    (`motionkit.rl.FlowSDE`), so steps, log-probabilities and the exact KL are those of `Clipped` with other
    coefficients. Rollouts visit few trained timesteps, measurements many: the paper trains with 10 and measures with
    40.

    Args:
        options: Options of the algorithm.
        **given: The fields of `Context`.
    """
    context, sampler = Context(**given), options.sampler
    process = _SAMPLERS[sampler.kind](sampler.noise_scale)
    plans = Plans(context.policy.schedule, process, sampler, ode_steps=sampler.ode_steps)
    return Clipped(options, context, plans)
