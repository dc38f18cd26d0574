"""`motionkit sa2va-rl`: self-play of captions and masks. Imports no torch."""

from motionkit.plugins import Component
from motionkit.trainers.sa2va_rl._settings import Sa2vaRlSettings

component = Component(
    summary="Train captions and masks on each other: mask to caption to mask, and caption to mask to caption.",
    options=Sa2vaRlSettings,
    factory="motionkit.trainers.sa2va_rl._trainer:Sa2vaRl",
)
