"""What a motion predictor reads and returns: states relative to the heading, and the path that they follow."""

from motionkit.motion.prediction._motion import motion_of
from motionkit.motion.prediction._path import path_errors, read_path, steps_of
from motionkit.motion.prediction._state import MotionState, follow, path_points, state_positions

__all__ = [
    "MotionState",
    "follow",
    "motion_of",
    "path_errors",
    "path_points",
    "read_path",
    "state_positions",
    "steps_of",
]
