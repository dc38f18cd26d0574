"""Update rules: how scored samples become a gradient. One module each, behind `Algorithm`."""

from motionkit.trainers.grpo.algorithms.base import Algorithm, Update
from motionkit.trainers.grpo.algorithms.clipped import Clipped

__all__ = ["Algorithm", "Clipped", "Update"]
