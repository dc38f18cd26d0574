"""Sampling: from noise to motion, with the record of the steps that training needs, or with a graph through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from motionkit.rl._plan import StepPlan

Predict = Callable[[Tensor, Tensor], Tensor]
"""``predict(x [N, T, D], timestep [N] int64) -> x0_hat [N, T, D]``; it may also be a `Denoiser`."""

StepNoise = Callable[[int], Tensor]
"""``noise(timestep) -> [N, T, D]`` standard normal draws for the step that leaves `timestep`."""
Chain = Literal["all", "first", "last"]


@runtime_checkable
class Denoiser(Protocol):
    """A prediction that can take all steps of a plan at once, faster than one after another."""

    def denoise(self, plan: StepPlan, x_start: Tensor, noise: StepNoise) -> Tensor:
        """Return ``x0`` ``[N, T, D]`` float32, that of `rollout` up to rounding."""
        ...


@dataclass(frozen=True, eq=False)
class Transitions:
    """M scored steps, ready for one forward pass: row m belongs to rollout sample ``sample[m]``."""

    x_t: Tensor  # ``[M, T, D]`` states that the network is evaluated at
    eps: Tensor  # ``[M, T, D]`` standard normal noise that was added
    x0_old: Tensor  # ``[M, T, D]`` prediction at rollout
    timestep: Tensor  # ``[M]`` int64 trained index
    c_x0: Tensor  # ``[M]`` float32 weight of the prediction in the step's mean
    c_xt: Tensor  # ``[M]`` float32 weight of the state in the step's mean
    sigma: Tensor  # ``[M]`` float32
    sensitivity: Tensor  # ``[M]`` float32, s = c_x0 / sigma
    sample: Tensor  # ``[M]`` int64 row of the rollout batch

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
    """The S scored steps of N rollouts, detached float32, ``[S, N, T, D]`` each."""

    x_t: Tensor  # States before the step
    eps: Tensor  # Noise added
    x0_old: Tensor  # Predictions at rollout
    timesteps: Tensor  # ``[S]`` int64 trained indices
    c_x0: Tensor  # ``[S]`` float32
    c_xt: Tensor  # ``[S]`` float32
    sigma: Tensor  # ``[S]`` float32
    sensitivity: Tensor  # ``[S]`` float32

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
    """States that the network was asked at, with or without a log-probability."""

    x_t: Tensor  # ``[S, N, T, D]``, detached float32; S may be 0
    timesteps: Tensor  # ``[S]`` int64 trained indices

    @property
    def num_pairs(self) -> int:
        """S * N, the number of (timestep, sample) pairs; pair ``s * N + n``."""
        return self.x_t.shape[0] * self.x_t.shape[1]

    def pairs(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gather the pairs `index` ``[M]``: states ``[M, T, D]``, timesteps ``[M]`` and rows of the samples ``[M]``."""
        samples = self.x_t.shape[1]
        step, sample = torch.div(index, samples, rounding_mode="floor"), index % samples
        return self.x_t[step, sample], self.timesteps[step], sample


@dataclass(frozen=True, eq=False)
class Rollout:
    """Finished samples and, when recorded, the visited states."""

    x0: Tensor  # ``[N, T, D]`` final states
    trajectory: Trajectory | None  # The scored steps, or None
    # The deterministic steps, or None: they have no log-probability, but are part of the policy all the same.
    rest: Visited | None = None

    @property
    def visited(self) -> Visited:
        """The states of all steps of a recorded `rollout`: the scored ones first, then the deterministic ones."""
        assert self.trajectory is not None
        assert self.rest is not None, "the rollout is recorded"
        return Visited(
            torch.cat([self.trajectory.x_t, self.rest.x_t]),
            torch.cat([self.trajectory.timesteps, self.rest.timesteps]),
        )


def rollout(predict: Predict, plan: StepPlan, x_start: Tensor, noise: StepNoise, *, record: bool = True) -> Rollout:
    """Sample from noise to motion.

    The samples carry a graph through all steps unless the caller samples under ``torch.no_grad()``. For a policy
    gradient it must: the gradient through the sampled states would cancel it.

    `predict` is called once per step with the whole batch; `noise` only at the steps that add noise, so a plan
    without such steps is the ODE sampler to the bit.

    Args:
        predict: The policy's x0 prediction, guidance included.
        plan: Coefficients of each step.
        x_start: ``[N, T, D]`` standard normal start.
        noise: Step noise by timestep.
        record: Keep the steps; refused for a plan that has nothing to train.

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
    elif isinstance(predict, Denoiser):
        return Rollout(predict.denoise(plan, x_start, noise), None)
    x = x_start.detach().to(torch.float32)
    scored, transitions, deterministic = set(plan.trainable), [], []
    for position, (timestep, c_x0, c_xt, sigma) in enumerate(plan.rows()):
        at = torch.full((x.shape[0],), timestep, dtype=torch.int64, device=x.device)
        x0_hat = predict(x, at).to(torch.float32)
        mean = c_x0 * x0_hat + c_xt * x
        if position not in scored:
            if record:
                deterministic.append((x, timestep))
            x = mean
            continue
        # State before the step, noise and prediction; the state after the step follows from these.
        eps = noise(timestep)
        if record:
            transitions.append((x, eps, x0_hat))
        x = mean + sigma * eps
    if not record:
        return Rollout(x, None)
    states = torch.stack([state for state, _ in deterministic]) if deterministic else x.new_zeros(0, *x.shape)
    timesteps = torch.tensor([timestep for _, timestep in deterministic], dtype=torch.int64, device=x.device)
    return Rollout(x, stacked(transitions, plan, x.device), Visited(states, timesteps))


def stacked(transitions: list[tuple[Tensor, Tensor, Tensor]], plan: StepPlan, device: torch.device) -> Trajectory:
    """Return the ``(x_t, eps, x0_old)`` of the scored steps, ``[N, T, D]`` each, as one record."""
    positions = torch.tensor(plan.trainable)
    # S triples of [N, T, D] become three tensors [S, N, T, D].
    x_t, eps, x0_old = (torch.stack(list(tensors)) for tensors in zip(*transitions, strict=True))

    def scalar(table: Tensor) -> Tensor:
        return table[positions].to(torch.float32).to(device)

    return Trajectory(
        x_t,
        eps,
        x0_old,
        plan.timesteps[positions].to(device),
        scalar(plan.c_x0),
        scalar(plan.c_xt),
        scalar(plan.sigma),
        scalar(plan.sensitivity),
    )


def graph_rollout(
    predict: Predict,
    plan: StepPlan,
    x_start: Tensor,
    noise: StepNoise,
    *,
    network: nn.Module,
    chain: Chain = "all",
    length: int = 0,
    record: bool = False,
    save_memory: bool = False,
) -> Rollout:
    """Sample with a graph, so that a loss on the finished motion has a gradient in the network's parameters.

    The sampler is a function of the parameters like any other, and the gradient of a reward flows back through all of
    its steps (DRaFT, Clark et al. 2023, arXiv:2309.17400; AlignProp, Prabhudesai et al. 2023, arXiv:2310.03739).

    Args:
        predict: The policy's x0 prediction, guidance included.
        plan: Coefficients of each step.
        x_start: ``[N, T, D]`` standard normal start.
        noise: Step noise by timestep; called only if the plan adds noise.
        network: Its parameters get the gradient.
        chain: Steps whose calls of the network have a gradient in the parameters: ``all``; the ``first`` `length`, with
            the later ones passing the gradient on to their inputs; or the ``last`` `length` (DRaFT-K, and ReFL with 1),
            before which there is no graph.
        length: K of ``first`` and ``last``.
        record: Keep the steps that add noise, without a graph, for their log-probability.
        save_memory: Keep only the states between the steps and recompute each step in the backward pass: the memory of
            one step, whatever their number, for one more forward pass.

    Returns:
        ``x0`` with a graph, and with `record` the noisy steps in ``trajectory``, detached.
    """
    # theta acts on x_0 through every step: x_{k+1} = a_k f(x_k, t_k; theta) + b_k x_k. `frozen` calls pass the
    # gradient on to x_k but not to theta; states before `cut` carry no graph at all.
    if chain == "all" and not record and not save_memory and isinstance(predict, Denoiser):
        with torch.enable_grad():
            return Rollout(predict.denoise(plan, x_start, noise), None)
    last = len(plan) - 1
    frozen = range(length, len(plan)) if chain == "first" else range(0)
    cut = len(plan) - length if chain == "last" else 0
    x = x_start.detach().to(torch.float32)
    scored: list[tuple[Tensor, Tensor, Tensor]] = []
    for position, (timestep, c_x0, c_xt, sigma) in enumerate(plan.rows()):
        at = torch.full((x.shape[0],), timestep, dtype=torch.int64, device=x.device)
        call = _without_parameters(predict, network) if position in frozen else predict
        with torch.set_grad_enabled(position >= cut):
            again = save_memory and position >= cut
            x0 = checkpoint(call, x, at, use_reentrant=False) if again else call(x, at)
            x0 = x0.to(torch.float32)
            # The last step returns the prediction itself (c_x0 = 1, c_xt = 0); 0 * x would keep its graph alive.
            before, x = x, c_x0 * x0 + c_xt * x if position < last else x0
        if sigma:
            eps = noise(timestep)
            x = x + sigma * eps
            if record:
                scored.append((before.detach(), eps, x0.detach()))
    return Rollout(x, stacked(scored, plan, x.device) if scored else None)


def _without_parameters(predict: Predict, network: nn.Module) -> Predict:
    """Return `predict` with a gradient in its input alone."""

    def call(x: Tensor, timestep: Tensor) -> Tensor:
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.requires_grad_(False)
        try:
            return predict(x, timestep)
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)

    return call
