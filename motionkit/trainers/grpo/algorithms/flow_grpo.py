"""Flow-GRPO: GRPO whose rollouts follow the stochastic differential equation of a flow model.

Liu et al. 2025 (arXiv:2505.05470). A diffusion policy that predicts x0 is a flow model in other coordinates
(`motionkit.rl.FlowSDE`), so steps, log-probabilities and the exact KL are those of `Clipped` with other coefficients.
Rollouts visit few trained timesteps, measurements many: the paper trains with 10 and measures with 40.
"""

from __future__ import annotations

from collections.abc import Callable

from motionkit.policies.base import DiffusionPolicy
from motionkit.rewards.mix import RewardMix
from motionkit.rl import CPS, DanceSDE, FlowSDE, Sampler
from motionkit.trainers._world import World
from motionkit.trainers.grpo._reference import Reference
from motionkit.trainers.grpo.algorithms._window import Plans
from motionkit.trainers.grpo.algorithms.grpo import Clipped
from motionkit.trainers.grpo.algorithms.options import FlowOptions

_SAMPLERS: dict[str, Callable[[float], Sampler]] = {"flow-sde": FlowSDE, "dance-sde": DanceSDE, "cps": CPS}


class FlowGrpo(Clipped):
    """The algorithm ``flow-grpo``; see `Clipped`.

    Args:
        options: How the policy is sampled, and what is maximised.
        policy: The policy that is trained.
        reference: What KL and the hold are measured to.
        rewards: Not needed; every algorithm is given them.
        seed: Seed of all noise.
        precision: ``fp32`` or ``bf16``, what the network computes in; for the audit.
        shuffle: Permute the advantages, as a negative control.
        world: The processes that train together.

    Raises:
        MotionkitError: The window leaves nothing to train, or does not fit.
    """

    def __init__(
        self,
        options: FlowOptions,
        *,
        policy: DiffusionPolicy,
        reference: Reference,
        rewards: RewardMix | None = None,
        seed: int = 0,
        precision: str = "fp32",
        shuffle: bool = False,
        world: World | None = None,
    ) -> None:
        sampler = options.sampler
        process = _SAMPLERS[sampler.kind](sampler.noise_scale)
        plans = Plans(policy.schedule, process, sampler, ode_steps=sampler.ode_steps)
        super().__init__(
            options,
            policy=policy,
            reference=reference,
            rewards=rewards,
            seed=seed,
            precision=precision,
            shuffle=shuffle,
            world=world,
            plans=plans,
        )
