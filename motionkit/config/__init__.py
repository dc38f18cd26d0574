"""Settings: models, files, precedence, and the origin of each value. Imports no torch."""

from motionkit.config._group import Cli, Group
from motionkit.config._shared import (
    CheckpointSettings,
    LogSettings,
    LoraSettings,
    OptimSettings,
    RunSettings,
    TrainerSettings,
)

__all__ = [
    "CheckpointSettings",
    "Cli",
    "Group",
    "LogSettings",
    "LoraSettings",
    "OptimSettings",
    "RunSettings",
    "TrainerSettings",
]
