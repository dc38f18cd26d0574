"""Settings: models, files, precedence, and the origin of each value. Imports no torch."""

from motionkit.config._choose import installed, owners_of, split_choice
from motionkit.config._given import Foreign, Given, interpolate, read_layers, renamed
from motionkit.config._group import Cli, Group
from motionkit.config._problems import Place, Problem, SettingsError, require_places
from motionkit.config._resolve import (
    Draft,
    Preset,
    Resolved,
    Settings,
    choose_from_file,
    choose_one,
    resolve,
    typed_flags,
)
from motionkit.config._search import Choice, Range, Search, Space
from motionkit.config._shared import (
    CheckpointSettings,
    Decay,
    EpochRunSettings,
    LogSettings,
    LoraSettings,
    LoraTarget,
    OptimSettings,
    PlaceSettings,
    PromptSettings,
    RunSettings,
    SamplerSettings,
    TrainerSettings,
    split_commas,
)
from motionkit.config._slots import Chosen, Slot, slot, slots, slots_of
from motionkit.config._tree import Leaf, dotted, leaves
from motionkit.config._words import slot_words, words_for
from motionkit.config.sources import NOT_SETTINGS, PREFIX, Layer, as_recorded, cache_folder, variable

__all__ = [
    "NOT_SETTINGS",
    "PREFIX",
    "CheckpointSettings",
    "Choice",
    "Chosen",
    "Cli",
    "Decay",
    "Draft",
    "EpochRunSettings",
    "Foreign",
    "Given",
    "Group",
    "Layer",
    "Leaf",
    "LogSettings",
    "LoraSettings",
    "LoraTarget",
    "OptimSettings",
    "Place",
    "PlaceSettings",
    "Preset",
    "Problem",
    "PromptSettings",
    "Range",
    "Resolved",
    "RunSettings",
    "SamplerSettings",
    "Search",
    "Settings",
    "SettingsError",
    "Slot",
    "Space",
    "TrainerSettings",
    "as_recorded",
    "cache_folder",
    "choose_from_file",
    "choose_one",
    "dotted",
    "installed",
    "interpolate",
    "leaves",
    "owners_of",
    "read_layers",
    "renamed",
    "require_places",
    "resolve",
    "slot",
    "slot_words",
    "slots",
    "slots_of",
    "split_choice",
    "split_commas",
    "typed_flags",
    "variable",
    "words_for",
]
