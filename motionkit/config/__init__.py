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
from motionkit.config._slots import Chosen, slot, slots

__all__ = [
    "CheckpointSettings",
    "Chosen",
    "Cli",
    "Group",
    "LogSettings",
    "LoraSettings",
    "OptimSettings",
    "RunSettings",
    "TrainerSettings",
    "slot",
    "slots",
]
