"""Convert motion files or whole folders to another format: in parallel, resumable, with one report."""

from motionkit.motion.convert._dataset_target import MAX_FRAMES, MIN_FRAMES, FeatureTarget
from motionkit.motion.convert._file_source import FileSource
from motionkit.motion.convert._files import FileKind, kind_of
from motionkit.motion.convert._generated import generated_texts
from motionkit.motion.convert._load import load_clips, unforeseen
from motionkit.motion.convert._pipeline import check, convert
from motionkit.motion.convert._place import claim_folder
from motionkit.motion.convert._reading import refuse_idle
from motionkit.motion.convert._report import ConvertReport
from motionkit.motion.convert._request import Request, plan_conversion, refuse_foreign, run_conversion
from motionkit.motion.convert._single import convert_file, require_file
from motionkit.motion.convert._sources import Opened, open_sources
from motionkit.motion.convert._targets import FileTarget, Target
from motionkit.motion.convert._wishes import Wishes, refuse_for_check
from motionkit.motion.convert._words import (
    FINDING_COLUMNS,
    check_messages,
    finding_rows,
    listed,
    messages,
    summary_line,
    summary_rows,
)

__all__ = [
    "FINDING_COLUMNS",
    "MAX_FRAMES",
    "MIN_FRAMES",
    "ConvertReport",
    "FeatureTarget",
    "FileKind",
    "FileSource",
    "FileTarget",
    "Opened",
    "Request",
    "Target",
    "Wishes",
    "check",
    "check_messages",
    "claim_folder",
    "convert",
    "convert_file",
    "finding_rows",
    "generated_texts",
    "kind_of",
    "listed",
    "load_clips",
    "messages",
    "open_sources",
    "plan_conversion",
    "refuse_for_check",
    "refuse_foreign",
    "refuse_idle",
    "require_file",
    "run_conversion",
    "summary_line",
    "summary_rows",
    "unforeseen",
]
