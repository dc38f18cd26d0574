"""Run folders and other output folders: locks, checkpoints, atomic writes. Imports torch only to save and load."""

from motionkit.runs._checkpoint import Checkpoint, capture_random, flatten_optimizer, restore_optimizer, restore_random
from motionkit.runs._content import (
    TRAINED_ON,
    Kept,
    MappedPages,
    TrainedOn,
    fingerprint,
    fingerprint_files,
    fingerprint_tensors,
)
from motionkit.runs._folder import LOCK, PAGE, folder_of, hold, still_holds
from motionkit.runs._listing import (
    RunInfo,
    find,
    find_one,
    generate_line,
    load,
    made_by,
    newest_with,
    next_commands,
    peek,
    what_is,
)
from motionkit.runs._model import TENSORS, SavedModel, find_model, note_test_split, write_model
from motionkit.runs._output import OutputFolder
from motionkit.runs._record import RunRecord
from motionkit.runs._resume import locate, refuse_command
from motionkit.runs._run import FollowingRun, Run, logging_into, open_run
from motionkit.runs.atomic import disk_errors, require_writable
from motionkit.runs.atomic import write_bytes as write_bytes_atomic

__all__ = [
    "LOCK",
    "PAGE",
    "TENSORS",
    "TRAINED_ON",
    "Checkpoint",
    "FollowingRun",
    "Kept",
    "MappedPages",
    "OutputFolder",
    "Run",
    "RunInfo",
    "RunRecord",
    "SavedModel",
    "TrainedOn",
    "capture_random",
    "disk_errors",
    "find",
    "find_model",
    "find_one",
    "fingerprint",
    "fingerprint_files",
    "fingerprint_tensors",
    "flatten_optimizer",
    "folder_of",
    "generate_line",
    "hold",
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
    "require_writable",
    "restore_optimizer",
    "restore_random",
    "still_holds",
    "what_is",
    "write_bytes_atomic",
    "write_model",
]
