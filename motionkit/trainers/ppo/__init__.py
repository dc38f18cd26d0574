"""`motionkit ppo`: a policy learns from a reward, such as a trained success classifier. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.ppo._settings import PpoSettings

component = Component(
    summary="Train a policy with PPO on a learned reward, and say how often it really succeeds.",
    options=PpoSettings,
    factory="motionkit.trainers.ppo._trainer:PpoTrainer",
)
