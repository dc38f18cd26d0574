"""What an error says."""

from __future__ import annotations

from motionkit.errors import MotionkitError


def test_what_a_file_says_at_length_is_cut():
    error = MotionkitError("bad: " + "x" * 100_000, why="y" * 100_000, fix="z")
    assert len(error.message) == len(error.why) == 8003
    assert error.message.startswith("bad: x")
    assert error.message.endswith("x...")
    assert (str(error), error.fix) == (error.message, "z")
    assert error.as_late().message == error.message
