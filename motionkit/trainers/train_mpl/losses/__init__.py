"""The losses of the motion predictor; docs/predictor.md lists them."""
