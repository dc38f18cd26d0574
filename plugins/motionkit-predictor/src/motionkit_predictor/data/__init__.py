"""Clips as the motion states that a predictor is trained and measured on."""
