"""Convert motion files or whole folders to another format: in parallel, resumable, with one report."""

from motionkit.clips.convert._dataset_target import MAX_FRAMES, MIN_FRAMES, FeatureTarget
from motionkit.clips.convert._file_source import FileSource
from motionkit.clips.convert._files import FileKind, kind_of
from motionkit.clips.convert._generated import generated_texts
from motionkit.clips.convert._load import load_clips, unforeseen
from motionkit.clips.convert._pipeline import check, convert
from motionkit.clips.convert._place import claim_folder
from motionkit.clips.convert._reading import refuse_idle
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._request import Request, plan_conversion, refuse_foreign, run_conversion
from motionkit.clips.convert._single import convert_file, require_file
from motionkit.clips.convert._sources import Opened, open_sources
from motionkit.clips.convert._targets import FileTarget, Target
from motionkit.clips.convert._wishes import Wishes, refuse_for_check
from motionkit.clips.convert._words import (
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
