"""Convert motion files or whole folders to another format: in parallel, resumable, with one report."""

from motionkit.clips._bodies import write_joint_map
from motionkit.clips._dataset_folder import generated_texts
from motionkit.clips._find import Opened, open_sources, refuse_idle
from motionkit.clips._sources import FileSource
from motionkit.clips._walk import load_clips
from motionkit.clips.convert._feature_target import FeatureTarget
from motionkit.clips.convert._messages import (
    check_messages,
    finding_text,
    fit_text,
    listed,
    messages,
    summary_line,
    summary_rows,
)
from motionkit.clips.convert._options import (
    OutputOptions,
    Request,
    plan_conversion,
    refuse_for_check,
    refuse_foreign,
    run_conversion,
)
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._resumable_folder import claim_folder
from motionkit.clips.convert._targets import FileTarget, Target
from motionkit.clips.convert._to_file import convert_file, require_file
from motionkit.clips.convert._to_folder import check, convert
from motionkit.clips.convert._write_file import FileKind, kind_of

__all__ = [
    "ConvertReport",
    "FeatureTarget",
    "FileKind",
    "FileSource",
    "FileTarget",
    "Opened",
    "OutputOptions",
    "Request",
    "Target",
    "check",
    "check_messages",
    "claim_folder",
    "convert",
    "convert_file",
    "finding_text",
    "fit_text",
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
    "write_joint_map",
]
