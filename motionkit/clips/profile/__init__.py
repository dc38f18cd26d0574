"""What a data set of motions holds: statistics, a page about them, and settings that suit it."""

from motionkit.clips.profile._contact_count import Contacts
from motionkit.clips.profile._document import profile_document, profile_statistics
from motionkit.clips.profile._gather import profile_sources
from motionkit.clips.profile._measure import Measure, measure
from motionkit.clips.profile._merge import BLOCK, Merged, merge_settings
from motionkit.clips.profile._notes import Note, notes
from motionkit.clips.profile._outliers import FEWEST, Outlier, find_outliers, uncompared
from motionkit.clips.profile._profile import Profile
from motionkit.clips.profile._ranges import JointRange, RigSums
from motionkit.clips.profile._result import ProfileResult
from motionkit.clips.profile._row import Rig, Row
from motionkit.clips.profile._run import check_outputs, run_profile
from motionkit.clips.profile._schedule import schedule_problems
from motionkit.clips.profile._settings_file import read_settings
from motionkit.clips.profile._suggest import Suggestion, suggest
from motionkit.clips.profile._tables import Table, profile_tables, remarks
from motionkit.clips.profile.page import profile_page

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
