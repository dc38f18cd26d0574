"""The motion predictor: known frames in, the frames that follow out, freely or along a path."""
