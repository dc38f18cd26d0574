"""What is in a motionkit .npz."""

from __future__ import annotations

SCHEMA = "motionkit.motion"
"""Value of ``motionkit_schema``: the array that says what the file is."""

VERSION = 1
"""Value of ``version``. It is raised when an older reader would misread the file; additions do not raise it."""

TRACK = "track."
"""Prefix of the arrays that hold `Motion.tracks`."""
