"""`motionkit grpo`: group relative policy optimisation of a motion diffusion model."""

from motionkit.plugins import Component
from motionkit.trainers.grpo._settings import GrpoSettings

component = Component(
    summary="Fine-tune a text-to-motion diffusion model against rewards (GRPO).",
    options=GrpoSettings,
    factory="motionkit.trainers.grpo._trainer:GrpoTrainer",
)
