"""The motion predictor's formats: JSON as exported from Unreal, and npz for training."""

from motionkit.formats.mpl.npz import angular_velocity, read_mpl_npz, write_mpl_npz
from motionkit.formats.mpl.read_json import read_mpl_json

__all__ = ["angular_velocity", "read_mpl_json", "read_mpl_npz", "write_mpl_npz"]
