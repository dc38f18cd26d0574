"""`motionkit reward-train`: trains a success classifier on collected episodes. Light half, imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.reward_train._settings import RewardTrainSettings

component = Component(
    summary="Train a success classifier on collected episodes, for ppo to be rewarded by.",
    options=RewardTrainSettings,
    factory="motionkit.trainers.reward_train._trainer:RewardTrain",
)
