"""Find the faults of a motion, and its longest clean run."""

from motionkit.clips.checks._body import HEIGHT_RANGE, is_plausible
from motionkit.clips.checks._check import check_motion
from motionkit.clips.checks._finding import KINDS, Finding, longest_clean_run
from motionkit.clips.checks._floor import floor_height
from motionkit.clips.checks._rest import frames_at_rest

__all__ = [
    "HEIGHT_RANGE",
    "KINDS",
    "Finding",
    "check_motion",
    "floor_height",
    "frames_at_rest",
    "is_plausible",
    "longest_clean_run",
]
