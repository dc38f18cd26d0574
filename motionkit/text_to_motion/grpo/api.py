"""The heavy half of `motionkit grpo`: training step, algorithms and settings, for use from Python. Imports torch."""

from motionkit.text_to_motion.grpo.algorithms.options import GrpoObjective, GrpoRollout, GrpoSampler
from motionkit.text_to_motion.grpo.settings import EmaSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.settings import LoraSettings

__all__ = ["GRPO", "EmaSettings", "GrpoObjective", "GrpoRollout", "GrpoSampler", "LoraSettings"]
