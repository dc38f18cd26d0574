"""How much of what a sampler ends with is its own noise, in closed form."""

from __future__ import annotations

import math

from torch import Tensor

from motionkit.rl._plan import Coefficients, StepPlan
from motionkit.rl._schedule import Schedule


def sampled_std(alpha_bar: Tensor, steps: Coefficients, std: float) -> float:
    """Return the standard deviation that a sampler gives data ``N(0, std^2)``, with the exact network.

    The network that minimises the error predicts ``E[x0 | x] = g x`` with ``g = sqrt(ab) std^2 / (ab std^2 + 1 - ab)``.
    The state stays Gaussian: a step takes its variance to ``(c_x0 g + c_xt)^2 var + sigma^2``, from 1 at the start.

    Args:
        alpha_bar: ``[K]`` float64, before each step.
        steps: The steps.
        std: Standard deviation of the data, positive.
    """
    gain = alpha_bar.sqrt() * std**2 / (alpha_bar * std**2 + 1 - alpha_bar)
    factor, added = (steps.c_x0 * gain + steps.c_xt).square().tolist(), steps.sigma.square().tolist()
    variance = 1.0
    for times, plus in zip(factor, added, strict=True):
        variance = times * variance + plus
    return math.sqrt(variance)


def excess_noise(schedule: Schedule, plan: StepPlan, std: float = 0.02) -> float:
    """Return `sampled_std` over `std`: 1 is right, 4 means that fine detail is four times too rough.

    Small details suffer first. With few steps a sampler of stochastic differential equations ends with noise that it
    has no steps left to remove, and a reward of smoothness then scores the sampler. Below 1 detail is smoothed, which
    every deterministic sampler does when its last steps are long.

    Args:
        schedule: The trained schedule.
        plan: The steps.
        std: Standard deviation of the detail, in normalised features.

    Example:
        >>> from motionkit.rl import DDIM, FlowSDE
        >>> schedule = Schedule.cosine(50)
        >>> for sampler, last in ((FlowSDE(0.7), 9), (FlowSDE(0.7), 2), (DDIM(1.0), 9)):
        ...     plan = StepPlan.build(schedule, sampler, steps=10, window=range(last))
        ...     print(round(excess_noise(schedule, plan), 2), end=" ")
        1.09 0.46 0.39
    """
    steps = Coefficients(plan.c_x0, plan.c_xt, plan.sigma)
    return sampled_std(schedule.alphas_cumprod[plan.timesteps], steps, std) / std
