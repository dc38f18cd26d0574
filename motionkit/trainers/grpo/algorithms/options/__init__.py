"""Options of the algorithms. Imports no torch.

The groups of an algorithm take the place of the settings' groups of the same name, which they extend, so that its
options are reached as ``rollout.group_size``, ``sampler.window_size`` and ``objective.clip_range``.
"""

from motionkit.trainers.grpo.algorithms.options._flow import FlowOptions, FlowSampler
from motionkit.trainers.grpo.algorithms.options._gradient import (
    GradientObjective,
    GradientOptim,
    GradientOptions,
    GradientRollout,
)
from motionkit.trainers.grpo.algorithms.options._grpo import GrpoObjective, GrpoOptions, GrpoRollout, GrpoSampler
from motionkit.trainers.grpo.algorithms.options._shared import (
    CreditObjective,
    GroupRollout,
    TrainSampler,
    WindowSampler,
)

__all__ = [
    "CreditObjective",
    "FlowOptions",
    "FlowSampler",
    "GradientObjective",
    "GradientOptim",
    "GradientOptions",
    "GradientRollout",
    "GroupRollout",
    "GrpoObjective",
    "GrpoOptions",
    "GrpoRollout",
    "GrpoSampler",
    "TrainSampler",
    "WindowSampler",
]
