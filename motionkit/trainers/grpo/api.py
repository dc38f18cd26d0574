"""The heavy half of `motionkit grpo`: training step, algorithms and settings, for use from Python. Imports torch."""

from motionkit.config import LoraSettings
from motionkit.trainers.grpo._engine import GRPO
from motionkit.trainers.grpo._settings import (
    ControlSettings,
    EmaSettings,
    GrpoOptimSettings,
)
from motionkit.trainers.grpo.algorithms.options._grpo import GrpoObjective, GrpoOptions, GrpoRollout, GrpoSampler

__all__ = [
    "GRPO",
    "ControlSettings",
    "EmaSettings",
    "GrpoObjective",
    "GrpoOptimSettings",
    "GrpoOptions",
    "GrpoRollout",
    "GrpoSampler",
    "LoraSettings",
]
