"""`motionkit reward-collect`: episodes that cameras saw, with the success of each frame. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.reward_collect._settings import RewardCollectSettings

component = Component(
    summary="Collect camera images of episodes with and without success, to train a reward on.",
    options=RewardCollectSettings,
    factory="motionkit.trainers.reward_collect._open:open_trainer",
)
