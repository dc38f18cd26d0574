"""A predictor for other programs."""
