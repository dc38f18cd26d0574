"""Find the faults of a motion, and its longest clean run."""
