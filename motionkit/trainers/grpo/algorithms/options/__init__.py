"""Options of the algorithms. Imports no torch.

The groups of an algorithm take the place of the settings' groups of the same name, which they extend, so that its
options are reached as ``rollout.group_size``, ``sampler.window_size`` and ``objective.clip_range``.
"""

from motionkit.trainers.grpo.algorithms.options._awm import AwmObjective, AwmOptions
from motionkit.trainers.grpo.algorithms.options._dpo import DpoObjective, DpoOptions
from motionkit.trainers.grpo.algorithms.options._easytune import EasyTuneObjective, EasyTuneOptions
from motionkit.trainers.grpo.algorithms.options._flow import FlowOptions, FlowSampler
from motionkit.trainers.grpo.algorithms.options._gradient import (
    GradientObjective,
    GradientOptim,
    GradientOptions,
    GradientRollout,
    GradientSampler,
)
from motionkit.trainers.grpo.algorithms.options._grpo import GrpoObjective, GrpoOptions, GrpoRollout, GrpoSampler
from motionkit.trainers.grpo.algorithms.options._matching import MatchingObjective, MatchingOptions, MatchingRollout
from motionkit.trainers.grpo.algorithms.options._mixed import MixedObjective, MixedOptions, MixedRollout
from motionkit.trainers.grpo.algorithms.options._nft import NftObjective, NftOptions
from motionkit.trainers.grpo.algorithms.options._shared import (
    CosineOptim,
    CreditObjective,
    GroupRollout,
    HoldObjective,
    SegmentObjective,
    TrainSampler,
    WindowSampler,
)

__all__ = [
    "AwmObjective",
    "AwmOptions",
    "CosineOptim",
    "CreditObjective",
    "DpoObjective",
    "DpoOptions",
    "EasyTuneObjective",
    "EasyTuneOptions",
    "FlowOptions",
    "FlowSampler",
    "GradientObjective",
    "GradientOptim",
    "GradientOptions",
    "GradientRollout",
    "GradientSampler",
    "GroupRollout",
    "GrpoObjective",
    "GrpoOptions",
    "GrpoRollout",
    "GrpoSampler",
    "HoldObjective",
    "MatchingObjective",
    "MatchingOptions",
    "MatchingRollout",
    "MixedObjective",
    "MixedOptions",
    "MixedRollout",
    "NftObjective",
    "NftOptions",
    "SegmentObjective",
    "TrainSampler",
    "WindowSampler",
]
