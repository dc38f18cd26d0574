"""The update rules as plugins, one component each, in the order of the documentation. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.grpo.algorithms.options._awm import AwmOptions
from motionkit.trainers.grpo.algorithms.options._dpo import DpoOptions
from motionkit.trainers.grpo.algorithms.options._easytune import EasyTuneOptions
from motionkit.trainers.grpo.algorithms.options._flow import FlowOptions
from motionkit.trainers.grpo.algorithms.options._gradient import GradientOptions
from motionkit.trainers.grpo.algorithms.options._grpo import GrpoOptions
from motionkit.trainers.grpo.algorithms.options._mixed import MixedOptions
from motionkit.trainers.grpo.algorithms.options._nft import NftOptions

grpo = Component(
    summary="Clipped surrogate on the Gaussian reverse steps, with an exact KL",
    options=GrpoOptions,
    factory="motionkit.trainers.grpo.algorithms.grpo:grpo",
)
flow_grpo = Component(
    summary="GRPO on the stochastic flow of a diffusion model: Flow-GRPO, DanceGRPO or CPS",
    options=FlowOptions,
    factory="motionkit.trainers.grpo.algorithms.flow_grpo:flow_grpo",
)
reward_gradient = Component(
    summary="Back-propagation of the reward through the sampler, for rewards that have a gradient",
    options=GradientOptions,
    factory="motionkit.trainers.grpo.algorithms.reward_gradient:RewardGradient",
)
mixed = Component(
    summary="Rewards with a gradient by their gradient, the others by the policy gradient, summed",
    options=MixedOptions,
    factory="motionkit.trainers.grpo.algorithms.mixed:Mixed",
)
easytune = Component(
    summary="Gradient of the reward at each sampling step alone, for networks whose whole chain needs too much memory",
    options=EasyTuneOptions,
    factory="motionkit.trainers.grpo.algorithms.easytune:EasyTune",
)
awm = Component(
    summary="Advantage weighted matching: finished samples are noised and predicted again, more or less of them",
    options=AwmOptions,
    factory="motionkit.trainers.grpo.algorithms.awm:AWM",
)
nft = Component(
    summary="DiffusionNFT: towards good and away from bad samples, between two implicit policies",
    options=NftOptions,
    factory="motionkit.trainers.grpo.algorithms.nft:NFT",
)
dpo = Component(
    summary="Diffusion-DPO on the best and the worst sample of each group",
    options=DpoOptions,
    factory="motionkit.trainers.grpo.algorithms.dpo:DPO",
)
