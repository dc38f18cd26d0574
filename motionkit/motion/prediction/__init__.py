"""What a motion predictor reads and returns: states relative to the heading, and the path that they follow."""
