"""Datasets: one folder per plugin. Torch-free, so that listings and help stay light; protocols are in `base`."""
