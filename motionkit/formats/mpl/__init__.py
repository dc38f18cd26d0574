"""The motion predictor's formats: JSON as exported from Unreal, and npz for training."""

from motionkit.formats.mpl.npz import angular_velocity, write_mpl_npz

__all__ = ["angular_velocity", "write_mpl_npz"]
