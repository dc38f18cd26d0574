"""What a data set of motions holds: statistics, a page about them, and settings that suit it."""

from motionkit.motion.profile._contact_count import Contacts
from motionkit.motion.profile._document import profile_document, profile_statistics
from motionkit.motion.profile._gather import profile_sources
from motionkit.motion.profile._measure import Measure, measure
from motionkit.motion.profile._merge import BLOCK, Merged, merge_settings
from motionkit.motion.profile._notes import Note, notes
from motionkit.motion.profile._outliers import FEWEST, Outlier, find_outliers, uncompared
from motionkit.motion.profile._profile import Profile
from motionkit.motion.profile._ranges import JointRange, RigSums
from motionkit.motion.profile._result import ProfileResult
from motionkit.motion.profile._row import Rig, Row
from motionkit.motion.profile._run import check_outputs, run_profile
from motionkit.motion.profile._schedule import schedule_problems
from motionkit.motion.profile._settings_file import read_settings
from motionkit.motion.profile._suggest import Suggestion, suggest
from motionkit.motion.profile._tables import Table, profile_tables, remarks
from motionkit.motion.profile.page import profile_page

__all__ = [
    "BLOCK",
    "FEWEST",
    "Contacts",
    "JointRange",
    "Measure",
    "Merged",
    "Note",
    "Outlier",
    "Profile",
    "ProfileResult",
    "Rig",
    "RigSums",
    "Row",
    "Suggestion",
    "Table",
    "check_outputs",
    "find_outliers",
    "measure",
    "merge_settings",
    "notes",
    "profile_document",
    "profile_page",
    "profile_sources",
    "profile_statistics",
    "profile_tables",
    "read_settings",
    "remarks",
    "run_profile",
    "schedule_problems",
    "suggest",
    "uncompared",
]
