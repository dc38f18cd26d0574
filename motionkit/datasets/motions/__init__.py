"""Clips with rotations for the motion predictor: read from files or made by the starter, of one skeleton."""
