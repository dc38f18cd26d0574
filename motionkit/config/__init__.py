"""Settings: models, files, precedence, and the origin of each value. Imports no torch."""

from motionkit.config._code import typed_flags
from motionkit.config._folders import cache_folder
from motionkit.config._group import Cli, Group
from motionkit.config._problems import Problem, SettingsError
from motionkit.config._resolve import Given, Resolved, resolve
from motionkit.config._shared import (
    CheckpointSettings,
    Decay,
    LogSettings,
    LoraSettings,
    LoraTarget,
    OptimSettings,
    RunSettings,
    TrainerSettings,
    split_commas,
)
from motionkit.config._slots import Chosen, slot, slots
from motionkit.config._tree import MISSING, Leaf, leaves

__all__ = [
    "MISSING",
    "CheckpointSettings",
    "Chosen",
    "Cli",
    "Decay",
    "Given",
    "Group",
    "Leaf",
    "LogSettings",
    "LoraSettings",
    "LoraTarget",
    "OptimSettings",
    "Problem",
    "Resolved",
    "RunSettings",
    "SettingsError",
    "TrainerSettings",
    "cache_folder",
    "leaves",
    "resolve",
    "slot",
    "slots",
    "split_commas",
    "typed_flags",
]
