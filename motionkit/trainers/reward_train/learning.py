"""The pieces of the classifier's trainer that `motionkit ppo --mine` trains it on with; imports torch."""

from motionkit.trainers.reward_train._batches import Augmentation, generator_of
from motionkit.trainers.reward_train._frames import Images, all_logits
from motionkit.trainers.reward_train._settings import AugmentSettings, ThresholdSettings
from motionkit.trainers.reward_train._validate import choose, loss_of

__all__ = [
    "AugmentSettings",
    "Augmentation",
    "Images",
    "ThresholdSettings",
    "all_logits",
    "choose",
    "generator_of",
    "loss_of",
]
