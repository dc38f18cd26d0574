"""What a data set of motions holds: statistics, a page about them, and settings that suit it."""

from motionkit.motion.profile._gather import profile_sources
from motionkit.motion.profile._measure import Measure, Row, measure
from motionkit.motion.profile._merge import BLOCK, Merged, merge_settings, read_settings
from motionkit.motion.profile._outliers import Outlier, find_outliers
from motionkit.motion.profile._page import profile_page
from motionkit.motion.profile._profile import JointRange, Profile, profile_clips
from motionkit.motion.profile._suggest import Suggestion, schedule_problems, suggest

__all__ = [
    "BLOCK",
    "JointRange",
    "Measure",
    "Merged",
    "Outlier",
    "Profile",
    "Row",
    "Suggestion",
    "find_outliers",
    "measure",
    "merge_settings",
    "profile_clips",
    "profile_page",
    "profile_sources",
    "read_settings",
    "schedule_problems",
    "suggest",
]
