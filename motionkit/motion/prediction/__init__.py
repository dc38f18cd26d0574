"""What a motion predictor reads and returns: states relative to the heading, and the path that they follow."""

from motionkit.motion.prediction._state import MotionState, follow, path_points, state_positions

__all__ = ["MotionState", "follow", "path_points", "state_positions"]
