"""The motion predictor's formats: JSON as exported from Unreal, and npz for training."""

from motionkit.motion.formats.mpl._json import read_mpl_json

__all__ = ["read_mpl_json"]
