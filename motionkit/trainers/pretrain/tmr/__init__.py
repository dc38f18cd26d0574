"""`motionkit pretrain tmr`: training of a text-to-motion retrieval model."""

from motionkit.plugins import Component
from motionkit.trainers.pretrain.tmr._settings import PretrainTMRSettings

component = Component(
    summary="Train a text-to-motion retrieval model on a dataset (TMR).",
    options=PretrainTMRSettings,
    factory="motionkit.trainers.pretrain.tmr._trainer:PretrainTMR",
)
