"""The heavy half of `motionkit grpo`: the algorithm and its settings, for use from Python. Imports torch."""

from motionkit.config import LoraSettings
from motionkit.trainers.grpo._algorithm import GRPO, step_plan
from motionkit.trainers.grpo._settings import (
    ControlSettings,
    EmaSettings,
    GrpoOptimSettings,
    ObjectiveSettings,
    RolloutSettings,
    SamplerSettings,
)

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
