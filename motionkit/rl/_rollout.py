"""Sampling, and the record of it that training needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.rl._plan import StepPlan

Predict = Callable[[Tensor, Tensor], Tensor]
"""``predict(x [N, T, D], timestep [N] int64) -> x0_hat [N, T, D]``."""

StepNoise = Callable[[int], Tensor]
"""``noise(timestep) -> [N, T, D]`` standard normal draws for the step that leaves `timestep`."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """M scored steps, ready for one forward pass: row m belongs to rollout sample ``sample[m]``.

    Attributes:
        x_t: ``[M, T, D]`` states the network is asked at.
        eps: ``[M, T, D]`` standard normal noise that was added.
        x0_old: ``[M, T, D]`` prediction at rollout.
        timestep: ``[M]`` int64 trained index.
        c_x0: ``[M]`` float32 weight of the prediction in the step's mean.
        c_xt: ``[M]`` float32 weight of the state in the step's mean.
        sigma: ``[M]`` float32.
        sensitivity: ``[M]`` float32, s = c_x0 / sigma.
        sample: ``[M]`` int64 row of the rollout batch.
    """

    x_t: Tensor
    eps: Tensor
    x0_old: Tensor
    timestep: Tensor
    c_x0: Tensor
    c_xt: Tensor
    sigma: Tensor
    sensitivity: Tensor
    sample: Tensor

    def __len__(self) -> int:
        return len(self.sample)

    def mean(self, x0: Tensor) -> Tensor:
        """Return the ``[M, T, D]`` mean of the step for the prediction `x0`."""
        # [M] -> [M, 1, 1], to scale [M, T, D].
        return self.c_x0.view(-1, 1, 1) * x0 + self.c_xt.view(-1, 1, 1) * self.x_t

    @property
    def x_next(self) -> Tensor:
        """``[M, T, D]`` states after the step."""
        return self.mean(self.x0_old) + self.sigma.view(-1, 1, 1) * self.eps


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The S scored steps of N rollouts, detached float32, ``[S, N, T, D]`` each.

    Attributes:
        x_t: States before the step.
        eps: Noise added.
        x0_old: Predictions at rollout.
        timesteps: ``[S]`` int64 trained indices.
        c_x0: ``[S]`` float32.
        c_xt: ``[S]`` float32.
        sigma: ``[S]`` float32.
        sensitivity: ``[S]`` float32.
    """

    x_t: Tensor
    eps: Tensor
    x0_old: Tensor
    timesteps: Tensor
    c_x0: Tensor
    c_xt: Tensor
    sigma: Tensor
    sensitivity: Tensor

    @property
    def num_steps(self) -> int:
        """S."""
        return self.x_t.shape[0]

    @property
    def num_samples(self) -> int:
        """N."""
        return self.x_t.shape[1]

    @property
    def num_pairs(self) -> int:
        """S * N, the number of (timestep, sample) pairs; pair ``s * N + n``."""
        return self.num_steps * self.num_samples

    @property
    def x_next(self) -> Tensor:
        """``[S, N, T, D]`` states after the step, rebuilt in the sampler's own order of operations."""
        shape = (-1, 1, 1, 1)
        mean = self.c_x0.view(shape) * self.x0_old + self.c_xt.view(shape) * self.x_t
        return mean + self.sigma.view(shape) * self.eps

    def pairs(self, index: Tensor) -> Transitions:
        """Gather the pairs `index` ``[M]`` (each in ``0..S*N-1``), any order and steps mixed, for one forward pass."""
        index = index.to(self.x_t.device)
        # Pair s * N + n: row s of the steps, column n of the samples.
        step, sample = torch.div(index, self.num_samples, rounding_mode="floor"), index % self.num_samples
        return Transitions(
            x_t=self.x_t[step, sample],
            eps=self.eps[step, sample],
            x0_old=self.x0_old[step, sample],
            timestep=self.timesteps[step],
            c_x0=self.c_x0[step],
            c_xt=self.c_xt[step],
            sigma=self.sigma[step],
            sensitivity=self.sensitivity[step],
            sample=sample,
        )


@dataclass(frozen=True, eq=False)
class Visited:
    """States of the deterministic steps, which have no log-probability but are part of the policy all the same.

    Attributes:
        x_t: ``[S, N, T, D]`` states the network was asked at, detached float32; S may be 0.
        timesteps: ``[S]`` int64 trained indices.
    """

    x_t: Tensor
    timesteps: Tensor


@dataclass(frozen=True, eq=False)
class Rollout:
    """Finished samples and, when recorded, the visited states.

    Attributes:
        x0: ``[N, T, D]`` final states.
        trajectory: The scored steps, or None.
        rest: The other steps, or None.
    """

    x0: Tensor
    trajectory: Trajectory | None
    rest: Visited | None = None


def rollout(predict: Predict, plan: StepPlan, x_start: Tensor, noise: StepNoise, *, record: bool = True) -> Rollout:
    """Sample from noise to motion.

    What comes out carries a graph through all steps unless the caller samples under ``torch.no_grad()``. A policy
    gradient must: the gradient through the sampled states would cancel it.

    `predict` is called once per step with the whole batch; `noise` only at the steps that add noise, so a plan
    without such steps is the ODE sampler to the bit.

    Args:
        predict: The policy's x0 prediction, guidance included.
        plan: What each step does.
        x_start: ``[N, T, D]`` standard normal start.
        noise: Step noise by timestep.
        record: Keep the steps.

    Raises:
        MotionkitError: `record` with a plan that has nothing to train.

    Example:
        >>> from motionkit.rl import Schedule
        >>> plan = StepPlan.build(Schedule.cosine(50), steps=5)
        >>> source = torch.zeros(2, 8, 3)  # two motions of eight frames, three features each
        >>> done = rollout(lambda x, t: 0 * x, plan, source + 1, lambda t: torch.randn_like(source))
        >>> done.x0.shape, done.trajectory.num_steps
        (torch.Size([2, 8, 3]), 4)
    """
    if record:
        plan.require_trainable()
    x = x_start.detach().to(torch.float32)
    scored, kept, rest = set(plan.trainable), [], []
    rows = zip(plan.timesteps.tolist(), plan.c_x0.tolist(), plan.c_xt.tolist(), plan.sigma.tolist(), strict=True)
    for position, (timestep, c_x0, c_xt, sigma) in enumerate(rows):
        asked = torch.full((x.shape[0],), timestep, dtype=torch.int64, device=x.device)
        x0_hat = predict(x, asked).to(torch.float32)
        mean = c_x0 * x0_hat + c_xt * x
        if position not in scored:
            if record:
                rest.append((x, timestep))
            x = mean
            continue
        # Kept are the state before the step, the noise and the prediction: the state after it follows from these.
        eps = noise(timestep)
        if record:
            kept.append((x, eps, x0_hat))
        x = mean + sigma * eps
    if not record:
        return Rollout(x, None)
    states = torch.stack([state for state, _ in rest]) if rest else x.new_zeros(0, *x.shape)
    others = torch.tensor([timestep for _, timestep in rest], dtype=torch.int64, device=x.device)
    return Rollout(x, stacked(kept, plan, x.device), Visited(states, others))


def stacked(kept: list[tuple[Tensor, Tensor, Tensor]], plan: StepPlan, device: torch.device) -> Trajectory:
    """Return the kept ``(x_t, eps, x0_old)`` of the scored steps, ``[N, T, D]`` each, as one record."""
    where = torch.tensor(plan.trainable)
    # S triples of [N, T, D] become three tensors [S, N, T, D].
    x_t, eps, x0_old = (torch.stack(list(tensors)) for tensors in zip(*kept, strict=True))

    def scalar(table: Tensor) -> Tensor:
        return table[where].to(torch.float32).to(device)

    return Trajectory(
        x_t,
        eps,
        x0_old,
        plan.timesteps[where].to(device),
        scalar(plan.c_x0),
        scalar(plan.c_xt),
        scalar(plan.sigma),
        scalar(plan.sensitivity),
    )
