"""Settings: models, files, precedence, and the origin of each value. Imports no torch."""

from motionkit.config._choose import choose_from_file, choose_one
from motionkit.config._code import code_in
from motionkit.config._layer import Foreign, Layer, flag_layer, nested
from motionkit.config._picks import installed, owners_of
from motionkit.config._problems import Problem, SettingsError, other_words, which_setting
from motionkit.config._references import interpolate
from motionkit.config._resolve import Resolved, Settings, concrete, resolve_layers
from motionkit.config._slots import HUB_ID, OLD_HUB_ID, Chosen, Cli, Group, Place, Slot, slot, slots, slots_of
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
from motionkit.config._tree import MISSING, Leaf, as_text, dotted, group_of, leaves, split_commas

__all__ = [
    "HUB_ID",
    "MISSING",
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
    "as_text",
    "cache_folder",
    "choose_from_file",
    "choose_one",
    "code_in",
    "concrete",
    "dotted",
    "flag_layer",
    "group_of",
    "installed",
    "interpolate",
    "leaves",
    "nested",
    "other_words",
    "owners_of",
    "read_file",
    "read_layers",
    "resolve",
    "resolve_layers",
    "slot",
    "slots",
    "slots_of",
    "split_commas",
    "variable",
    "which_setting",
    "with_later",
]
