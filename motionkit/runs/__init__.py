"""Run folders and other output folders: locks, checkpoints, atomic writes. Imports torch only to save and load."""

from motionkit.runs._checkpoint import Checkpoint, flatten_optimizer, last_checkpoint, restore_optimizer
from motionkit.runs._fingerprint import fingerprint, fingerprint_files, fingerprint_tensors
from motionkit.runs._folder import LOCK, PAGE, folder_name, folder_of, hold, refuse_taken, still_holds
from motionkit.runs._listing import (
    RunInfo,
    find,
    find_one,
    load,
    made_by,
    newest_with,
    peek,
    what_is,
)
from motionkit.runs._manage import (
    change_tags,
    check_removable,
    data_of,
    note_test_split,
    remove_run,
    size_of,
    tags_of,
    users_of,
)
from motionkit.runs._model import TENSORS, TRAINED_ON, Kept, SavedModel, TrainedOn, find_model, write_model
from motionkit.runs._next import conversion_lines, next_commands, resumed
from motionkit.runs._resume import locate, refuse_command, to_change
from motionkit.runs._run import FollowingRun, Run, logging_into, open_run
from motionkit.runs.atomic import OutputFolder, disk_errors, require_writable
from motionkit.runs.atomic import write_arrays as write_arrays_atomic
from motionkit.runs.atomic import write_bytes as write_bytes_atomic

__all__ = [
    "LOCK",
    "PAGE",
    "TENSORS",
    "TRAINED_ON",
    "Checkpoint",
    "FollowingRun",
    "Kept",
    "OutputFolder",
    "Run",
    "RunInfo",
    "SavedModel",
    "TrainedOn",
    "change_tags",
    "check_removable",
    "conversion_lines",
    "data_of",
    "disk_errors",
    "find",
    "find_model",
    "find_one",
    "fingerprint",
    "fingerprint_files",
    "fingerprint_tensors",
    "flatten_optimizer",
    "folder_name",
    "folder_of",
    "hold",
    "last_checkpoint",
    "load",
    "locate",
    "logging_into",
    "made_by",
    "newest_with",
    "next_commands",
    "note_test_split",
    "open_run",
    "peek",
    "refuse_command",
    "refuse_taken",
    "remove_run",
    "require_writable",
    "restore_optimizer",
    "resumed",
    "size_of",
    "still_holds",
    "tags_of",
    "to_change",
    "users_of",
    "what_is",
    "write_arrays_atomic",
    "write_bytes_atomic",
    "write_model",
]
