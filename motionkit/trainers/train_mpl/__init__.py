"""`motionkit train-mpl`: staged training of a motion predictor. Light half, imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.train_mpl._settings import TrainMplSettings

component = Component(
    summary="Train a motion predictor, from teacher forcing to free runs (MPL).",
    options=TrainMplSettings,
    factory="motionkit.trainers.train_mpl._trainer:TrainMpl",
    search="motionkit.trainers.train_mpl._space:search",
)
