"""Update rules, one module each, behind `base.Algorithm`: how scored samples become a gradient. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.grpo.algorithms.options import (
    FlowOptions,
    FlowSampler,
    GradientObjective,
    GradientOptions,
    GrpoObjective,
    GrpoOptions,
    GrpoRollout,
    GrpoSampler,
)

grpo = Component(
    summary="Clipped surrogate on the Gaussian reverse steps, with an exact KL",
    options=GrpoOptions,
    factory="motionkit.trainers.grpo.algorithms.clipped:Clipped",
)
flow_grpo = Component(
    summary="GRPO on the stochastic flow of a diffusion model: Flow-GRPO, DanceGRPO or CPS",
    options=FlowOptions,
    factory="motionkit.trainers.grpo.algorithms.flow:FlowGrpo",
)
reward_gradient = Component(
    summary="Back-propagation of the reward through the sampler, for rewards that have a gradient",
    options=GradientOptions,
    factory="motionkit.trainers.grpo.algorithms.gradient:RewardGradient",
)

__all__ = [
    "FlowOptions",
    "FlowSampler",
    "GradientObjective",
    "GradientOptions",
    "GrpoObjective",
    "GrpoOptions",
    "GrpoRollout",
    "GrpoSampler",
    "flow_grpo",
    "grpo",
    "reward_gradient",
]
