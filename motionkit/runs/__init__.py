"""Run folders and other output folders: locks, checkpoints, atomic writes. Imports torch only to save and load."""

from motionkit.runs.atomic import disk_errors
from motionkit.runs.atomic import write_bytes as write_bytes_atomic
from motionkit.runs._checkpoint import Checkpoint
from motionkit.runs._content import fingerprint, fingerprint_files, fingerprint_tensors
from motionkit.runs._folder import PAGE, folder_of
from motionkit.runs._run import FollowingRun
from motionkit.runs._listing import RunInfo, find, find_one, load, made_by, peek
from motionkit.runs._folder import LOCK, hold, still_holds
from motionkit.runs._run import logging_into
from motionkit.runs._content import MappedPages
from motionkit.runs._model import TENSORS, SavedModel, find_model, write_model
from motionkit.runs._listing import generate_line, next_commands
from motionkit.runs._run import open_run
from motionkit.runs._model import note_test_split
from motionkit.runs._checkpoint import flatten_optimizer, restore_optimizer
from motionkit.runs._output import OutputFolder
from motionkit.runs._checkpoint import capture_random, restore_random
from motionkit.runs._record import RunRecord
from motionkit.runs._resume import locate, refuse_command
from motionkit.runs._run import Run
from motionkit.runs._content import TRAINED_ON, Kept, TrainedOn
from motionkit.runs.atomic import require_writable

__all__ = ["LOCK", "PAGE", "TENSORS", "TRAINED_ON", "Checkpoint", "FollowingRun", "Kept", "MappedPages", "OutputFolder", "Run", "RunInfo", "RunRecord", "SavedModel", "TrainedOn", "capture_random", "disk_errors", "find", "find_model", "find_one", "fingerprint", "fingerprint_files", "fingerprint_tensors", "flatten_optimizer", "folder_of", "hold", "load", "made_by", "locate", "logging_into", "generate_line", "next_commands", "note_test_split", "peek", "open_run", "refuse_command", "require_writable", "restore_optimizer", "restore_random", "still_holds", "write_bytes_atomic", "write_model"]
