"""`motionkit pretrain mdm`: supervised training of a motion diffusion model."""

from motionkit.plugins import Component
from motionkit.trainers.pretrain.mdm._settings import PretrainMDMSettings

component = Component(
    summary="Train a text-to-motion diffusion model on a dataset (MDM).",
    options=PretrainMDMSettings,
    factory="motionkit.trainers.pretrain.mdm._trainer:PretrainMDM",
)
