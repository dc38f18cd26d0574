"""Trainer `best-of-n`: the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from motionkit.config import Chosen, Cli, Group, slot, slots
from motionkit.plugins import Component, Metric
from motionkit.text_to_motion.settings import PromptSettings
from motionkit.training.settings import OptimSettings, RunSettings, TrainerSettings


class BestSettings(Group):
    """What a round samples, and what of it is learned from."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(8, ge=1, le=16384, description="Prompts of a round.")
    samples: Annotated[int, Cli("--samples")] = Field(8, ge=2, le=4096, description="Samples of each prompt, N.")
    keep: Annotated[int, Cli("--keep")] = Field(1, ge=1, le=4095, description="Best samples that are learned from.")
    updates: Annotated[int, Cli("--updates")] = Field(4, ge=1, le=10_000, description="Updates of a round.")

    @model_validator(mode="after")
    def _a_choice(self) -> Self:
        if self.keep >= self.samples:
            raise ValueError(f"keep is {self.keep} of {self.samples} samples: nothing would be chosen")
        return self


class MeasureSettings(Group):
    """What is measured before and after, with the same noise."""

    prompts: int = Field(32, ge=0, le=100_000, description="Held-out prompts of the val split; 0 measures nothing.")
    samples: int = Field(2, ge=1, le=4096, description="Samples of each.")


class BestOfNSettings(TrainerSettings):
    """Settings of ``motionkit best-of-n``; a step is a round."""

    run: RunSettings = RunSettings(num_steps=60)
    policy: Chosen = slot("policies", "mdm", gives="diffusion")
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",), reads="motion")
    judge: Chosen | None = slot(
        "rewards", None, description="Score that is measured and never trained on; default: the starter's own judge."
    )
    prompts: PromptSettings = PromptSettings()
    best: BestSettings = BestSettings()
    optim: OptimSettings = OptimSettings(learning_rate=1e-4)
    heldout: MeasureSettings = MeasureSettings()


component = Component(
    summary="Fine-tune a text-to-motion policy on the best of its own samples, by a reward.",
    options=BestOfNSettings,
    factory="motionkit_trainer_best_of_n.trainer:BestOfN",
    metrics=(
        Metric("kept/reward", unit="1", better="up", meaning="Mean reward of the samples that are learned from."),
    ),
)

__all__ = ["BestOfNSettings", "BestSettings", "MeasureSettings", "component"]
