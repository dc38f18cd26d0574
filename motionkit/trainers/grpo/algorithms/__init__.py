"""Update rules, one module each, behind `base.Algorithm`: how scored samples become a gradient. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.grpo.algorithms.options import (
    AwmObjective,
    AwmOptions,
    DpoObjective,
    DpoOptions,
    EasyTuneObjective,
    EasyTuneOptions,
    FlowOptions,
    FlowSampler,
    GradientObjective,
    GradientOptions,
    GrpoObjective,
    GrpoOptions,
    GrpoRollout,
    GrpoSampler,
    MatchingRollout,
    MixedObjective,
    MixedOptions,
    MixedRollout,
    NftObjective,
    NftOptions,
    RwrObjective,
    RwrOptions,
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
mixed = Component(
    summary="Rewards with a gradient by their gradient, the others by the policy gradient, summed",
    options=MixedOptions,
    factory="motionkit.trainers.grpo.algorithms.mixture:Mixed",
)
easytune = Component(
    summary="Gradient of the reward at each sampling step alone, for networks whose whole chain needs too much memory",
    options=EasyTuneOptions,
    factory="motionkit.trainers.grpo.algorithms.stepwise:EasyTune",
)
awm = Component(
    summary="Advantage weighted matching: finished samples are noised and predicted again, more or less of them",
    options=AwmOptions,
    factory="motionkit.trainers.grpo.algorithms.weighted:AWM",
)
nft = Component(
    summary="DiffusionNFT: towards good and away from bad samples, between two implicit policies",
    options=NftOptions,
    factory="motionkit.trainers.grpo.algorithms.contrast:NFT",
)
rwr = Component(
    summary="Reward-weighted regression on the policy's own samples",
    options=RwrOptions,
    factory="motionkit.trainers.grpo.algorithms.regression:RWR",
)
dpo = Component(
    summary="Diffusion-DPO on the best and the worst sample of each group",
    options=DpoOptions,
    factory="motionkit.trainers.grpo.algorithms.preference:DPO",
)

__all__ = [
    "AwmObjective",
    "DpoObjective",
    "EasyTuneObjective",
    "EasyTuneOptions",
    "FlowOptions",
    "FlowSampler",
    "GradientObjective",
    "GradientOptions",
    "GrpoObjective",
    "GrpoOptions",
    "GrpoRollout",
    "GrpoSampler",
    "MatchingRollout",
    "MixedObjective",
    "MixedOptions",
    "MixedRollout",
    "NftObjective",
    "RwrObjective",
    "awm",
    "dpo",
    "easytune",
    "flow_grpo",
    "grpo",
    "mixed",
    "nft",
    "reward_gradient",
    "rwr",
]
