"""What is wrong with a motion, and its longest clean run."""
