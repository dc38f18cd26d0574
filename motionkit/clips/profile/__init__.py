"""What a dataset of motions holds: statistics, a page about them, and settings that suit it."""

from motionkit.clips.profile._document import profile_document, profile_statistics
from motionkit.clips.profile._measure import ClipRow, measure
from motionkit.clips.profile._merge import BLOCK, merge_settings
from motionkit.clips.profile._outliers import find_outliers, uncompared
from motionkit.clips.profile._page import profile_page
from motionkit.clips.profile._profile import Profile, profile_sources
from motionkit.clips.profile._run import ProfileResult, check_outputs, run_profile
from motionkit.clips.profile._settings_file import dump_settings, read_settings
from motionkit.clips.profile._suggestion import Advisor, Suggestion
from motionkit.clips.profile._tables import remarks

__all__ = [
    "BLOCK",
    "Advisor",
    "ClipRow",
    "Profile",
    "ProfileResult",
    "Suggestion",
    "check_outputs",
    "dump_settings",
    "find_outliers",
    "measure",
    "merge_settings",
    "profile_document",
    "profile_page",
    "profile_sources",
    "profile_statistics",
    "read_settings",
    "remarks",
    "run_profile",
    "uncompared",
]
