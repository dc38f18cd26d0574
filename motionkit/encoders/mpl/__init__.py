"""The motion encoder of the predictor: one frame and the poses just before it become features, phase and gait."""

from motionkit.encoders.mpl._find import COMMAND, newest_encoder_run, open_encoder
from motionkit.encoders.mpl._inputs import FEET, encoder_inputs, frame_features, with_history
from motionkit.encoders.mpl._native import ARTIFACT, SizesRecord, is_native, load_encoder, save_encoder
from motionkit.encoders.mpl._network import PERIOD, EncoderSizes, MotionEncoder
from motionkit.encoders.mpl._scales import Scales, turn_residual

__all__ = [
    "ARTIFACT",
    "COMMAND",
    "FEET",
    "PERIOD",
    "EncoderSizes",
    "MotionEncoder",
    "Scales",
    "SizesRecord",
    "encoder_inputs",
    "frame_features",
    "is_native",
    "load_encoder",
    "newest_encoder_run",
    "open_encoder",
    "save_encoder",
    "turn_residual",
    "with_history",
]
