"""Update rules, one module each, behind `base.Algorithm`: how scored samples become a gradient. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.grpo.algorithms.options import (
    GradientObjective,
    GradientOptions,
    GrpoObjective,
    GrpoOptions,
    GrpoRollout,
    GrpoSampler,
    MixedObjective,
    MixedOptions,
    MixedRollout,
)

grpo = Component(
    summary="Clipped surrogate on the Gaussian reverse steps, with an exact KL",
    options=GrpoOptions,
    factory="motionkit.trainers.grpo.algorithms.clipped:Clipped",
)
reward_gradient = Component(
    summary="Back-propagation of the reward through the sampler, for rewards that have a gradient",
    options=GradientOptions,
    factory="motionkit.trainers.grpo.algorithms.gradient:RewardGradient",
)
mixed = Component(
    summary="Rewards with a gradient by their gradient, the others by the policy gradient, summed",
    options=MixedOptions,
    factory="motionkit.trainers.grpo.algorithms.mixture:Mixed",
)

__all__ = [
    "GradientObjective",
    "GradientOptions",
    "GrpoObjective",
    "GrpoOptions",
    "GrpoRollout",
    "GrpoSampler",
    "MixedObjective",
    "MixedOptions",
    "MixedRollout",
    "grpo",
    "mixed",
    "reward_gradient",
]
