"""Clips with rotations for the motion predictor: read from files or made by the starter, of one skeleton."""

from motionkit.datasets.motions._clips import ClipSet, StateClip, clip_set, motion_state
from motionkit.datasets.motions._content import clip_fingerprint, leave_out, set_fingerprint
from motionkit.datasets.motions._open import STARTER, open_clip_set
from motionkit.datasets.motions._read import read_clip_set
from motionkit.datasets.motions._starter import starter_clip_set
from motionkit.datasets.motions._windows import Windows, cut_windows

__all__ = [
    "STARTER",
    "ClipSet",
    "StateClip",
    "Windows",
    "clip_fingerprint",
    "clip_set",
    "cut_windows",
    "leave_out",
    "motion_state",
    "open_clip_set",
    "read_clip_set",
    "set_fingerprint",
    "starter_clip_set",
]
