"""Flow-GRPO: GRPO whose rollouts follow the stochastic differential equation of a flow model.

Liu et al. 2025 (arXiv:2505.05470). A diffusion policy that predicts x0 is a flow model in other coordinates
(`motionkit.rl.FlowSDE`), so steps, log-probabilities and the exact KL are those of `Clipped` with other coefficients.
Rollouts visit few trained timesteps, measurements many: the paper trains with 10 and measures with 40.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motionkit.policies.base import DiffusionPolicy
from motionkit.rl import CPS, DanceSDE, FlowSDE, Sampler
from motionkit.trainers.grpo.algorithms._window import Plans
from motionkit.trainers.grpo.algorithms.grpo import Clipped
from motionkit.trainers.grpo.algorithms.options._flow import FlowOptions

_SAMPLERS: dict[str, Callable[[float], Sampler]] = {"flow-sde": FlowSDE, "dance-sde": DanceSDE, "cps": CPS}


def flow_grpo(options: FlowOptions, *, policy: DiffusionPolicy, **runtime: Any) -> Clipped:
    """Return the algorithm ``flow-grpo``; arguments as in `Clipped`.

    Raises:
        MotionkitError: The window leaves nothing to train, or does not fit.
    """
    sampler = options.sampler
    process = _SAMPLERS[sampler.kind](sampler.noise_scale)
    plans = Plans(policy.schedule, process, sampler, ode_steps=sampler.ode_steps)
    return Clipped(options, policy=policy, plans=plans, **runtime)
