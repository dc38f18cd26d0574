"""Convert motion files or whole folders to another format: in parallel, resumable, with one report."""

from motionkit.clips.bodies import write_joint_map
from motionkit.clips.convert.options import (
    OutputOptions,
    kinds,
    no_kind,
    plan_conversion,
    refuse_for_check,
)
from motionkit.clips.convert.report import (
    ConvertReport,
    check_messages,
    edit_rows,
    finding_text,
    fit_text,
    grouped,
    listed,
    messages,
    summary_line,
    summary_rows,
)
from motionkit.clips.convert.resumable import claim_folder
from motionkit.clips.convert.run import check, convert, convert_file, require_file, run_conversion
from motionkit.clips.convert.targets import FileTarget
from motionkit.clips.edits import Edits, edited, read_fixes
from motionkit.clips.find import Opened, generated_texts, open_sources, refuse_idle
from motionkit.clips.rig_files import read_rig
from motionkit.clips.sources import FileSource, load_clips, sizes_of
from motionkit.formats import kind_of

__all__ = [
    "ConvertReport",
    "Edits",
    "FileSource",
    "FileTarget",
    "Opened",
    "OutputOptions",
    "check",
    "check_messages",
    "claim_folder",
    "convert",
    "convert_file",
    "edit_rows",
    "edited",
    "finding_text",
    "fit_text",
    "generated_texts",
    "grouped",
    "kind_of",
    "kinds",
    "listed",
    "load_clips",
    "messages",
    "no_kind",
    "open_sources",
    "plan_conversion",
    "read_fixes",
    "read_rig",
    "refuse_for_check",
    "refuse_idle",
    "require_file",
    "run_conversion",
    "sizes_of",
    "summary_line",
    "summary_rows",
    "write_joint_map",
]
