"""`motionkit pretrain mpl-encoder`: supervised training of the predictor's motion encoder."""

from motionkit.plugins import Component
from motionkit.trainers.pretrain.mpl_encoder._settings import PretrainEncoderSettings

component = Component(
    summary="Train a motion encoder for the motion predictor: phase, gait and next pose of each frame (MPL).",
    options=PretrainEncoderSettings,
    factory="motionkit.trainers.pretrain.mpl_encoder._trainer:PretrainEncoder",
)
