"""`motionkit train-mpl`: staged training of a motion predictor, and advice for its settings."""

from motionkit.plugins import Component
from motionkit.trainers.train_mpl._advice import PredictorAdvisor, suggest
from motionkit.trainers.train_mpl._schedule import schedule_problems
from motionkit.trainers.train_mpl._settings import TrainMplSettings

component = Component(
    summary="Train a motion predictor, from teacher forcing to free runs (MPL).",
    options=TrainMplSettings,
    factory="motionkit.trainers.train_mpl._trainer:TrainMpl",
    search="motionkit.trainers.train_mpl._space:search",
)

__all__ = ["PredictorAdvisor", "TrainMplSettings", "component", "schedule_problems", "suggest"]
