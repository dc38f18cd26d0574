"""The heavy half of the motion predictor: imports torch."""
