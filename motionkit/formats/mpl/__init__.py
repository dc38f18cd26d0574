"""The motion predictor's formats: JSON as exported from Unreal, and npz for training."""

from motionkit.formats.mpl._read_json import read_mpl_json
from motionkit.formats.mpl._read_npz import read_mpl_npz
from motionkit.formats.mpl._trajectory import angular_velocity
from motionkit.formats.mpl._write import write_mpl_npz

__all__ = ["angular_velocity", "read_mpl_json", "read_mpl_npz", "write_mpl_npz"]
