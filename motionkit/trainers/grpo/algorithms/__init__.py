"""Update rules, one module each, behind `base.Algorithm`: how scored samples become a gradient. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.grpo.algorithms._options import GrpoObjective, GrpoOptions, GrpoRollout, GrpoSampler

grpo = Component(
    summary="Clipped surrogate on the Gaussian reverse steps, with an exact KL",
    options=GrpoOptions,
    factory="motionkit.trainers.grpo.algorithms.clipped:Clipped",
)

__all__ = ["GrpoObjective", "GrpoOptions", "GrpoRollout", "GrpoSampler", "grpo"]
