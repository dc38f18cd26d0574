"""Settings: models, files, precedence, and the origin of each value. Imports no torch."""

from motionkit.config._choose import choose_from_file, choose_one
from motionkit.config._code import typed_flags
from motionkit.config._layer import Foreign, Layer, flag_layer, nested
from motionkit.config._picks import installed, owners_of, split_choice
from motionkit.config._places import HUB_ID, OLD_HUB_ID, Place, require_places
from motionkit.config._problems import Problem, SettingsError, other_words, which_setting
from motionkit.config._references import interpolate
from motionkit.config._resolve import Resolved, Settings, concrete, resolve_layers
from motionkit.config._slots import Chosen, Cli, Group, Slot, slot, slots, slots_of
from motionkit.config._sources import (
    NOT_SETTINGS,
    PREFIX,
    as_recorded,
    cache_folder,
    read_file,
    read_layers,
    resolve,
    variable,
    with_later,
)
from motionkit.config._tree import Leaf, dotted, leaves, split_commas
from motionkit.config._words import slot_words, words_for

__all__ = [
    "HUB_ID",
    "NOT_SETTINGS",
    "OLD_HUB_ID",
    "PREFIX",
    "Chosen",
    "Cli",
    "Foreign",
    "Group",
    "Layer",
    "Leaf",
    "Place",
    "Problem",
    "Resolved",
    "Settings",
    "SettingsError",
    "Slot",
    "as_recorded",
    "cache_folder",
    "choose_from_file",
    "choose_one",
    "concrete",
    "dotted",
    "flag_layer",
    "installed",
    "interpolate",
    "leaves",
    "nested",
    "other_words",
    "owners_of",
    "read_file",
    "read_layers",
    "require_places",
    "resolve",
    "resolve_layers",
    "slot",
    "slot_words",
    "slots",
    "slots_of",
    "split_choice",
    "split_commas",
    "typed_flags",
    "variable",
    "which_setting",
    "with_later",
    "words_for",
]
