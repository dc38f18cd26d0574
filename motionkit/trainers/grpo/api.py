"""The heavy half of `motionkit grpo`: training step, algorithms and settings, for use from Python. Imports torch."""

from motionkit.config import LoraSettings
from motionkit.trainers.grpo._engine import GRPO
from motionkit.trainers.grpo._settings import (
    ControlSettings,
    EmaSettings,
    GrpoOptimSettings,
    ObjectiveSettings,
    RolloutSettings,
    SamplerSettings,
)
from motionkit.trainers.grpo.algorithms.clipped import step_plan

__all__ = [
    "GRPO",
    "ControlSettings",
    "EmaSettings",
    "GrpoOptimSettings",
    "LoraSettings",
    "ObjectiveSettings",
    "RolloutSettings",
    "SamplerSettings",
    "step_plan",
]
