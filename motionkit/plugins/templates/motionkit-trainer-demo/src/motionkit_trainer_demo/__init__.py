"""Trainer 'demo': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from typing import Annotated

from motionkit.config import Cli
from motionkit.plugins import Component
from motionkit.training.settings import RunSettings, TrainerSettings
from pydantic import Field


class Settings(TrainerSettings):
    """Settings of ``motionkit demo``; a field marked with Cli is a flag, all are reached by --set."""

    run: RunSettings = RunSettings(num_steps=100)
    rate: Annotated[float, Cli("--rate")] = Field(0.1, gt=0, description="Learning rate.")


component = Component(
    summary="What 'demo' trains, in one line",
    options=Settings,
    factory="motionkit_trainer_demo.trainer:DemoTrainer",
)
