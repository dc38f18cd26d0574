"""Options of the algorithm `reward-gradient`. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Cli, Group, RunSettings
from motionkit.trainers.grpo._settings import ObjectiveSettings, RolloutSettings
from motionkit.trainers.grpo.algorithms.options._shared import CosineOptim, TrainSampler


class GradientRollout(RolloutSettings):
    """What is sampled before each update: one motion per prompt."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(16, ge=1, le=16384, description="Prompts per update.")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")


class GradientObjective(ObjectiveSettings):
    """What is minimised beside the negative reward."""

    chain: Literal["all", "first", "last"] = Field(
        "all",
        description="Sampling steps whose network calls are differentiated: all, or the first or last chain_steps.",
    )
    chain_steps: int = Field(1, ge=1, le=10_000, description="K of chain first and last.")
    save_memory: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Compute each step twice and keep one in memory; auto: for large networks and many steps.",
    )
    anchor: float = Field(
        5.0, ge=0.0, description="Weight of what keeps predictions as smooth as the reference's; 0 is off."
    )
    hold: float = Field(
        8.0, ge=0.0, description="Weight of the distance to the reference's predictions, times alpha-bar of the step."
    )
    jerk: float | None = Field(
        None, ge=0.0, description="Weight of the log of the jerk; default: 0.03, and 0 with a physics reward."
    )
    skate: float | None = Field(
        None, ge=0.0, description="Weight of the foot skate in m/s; default: 0.02, and 0 with a physics reward."
    )


class GradientOptions(Group):
    """Options of the algorithm `reward-gradient`."""

    run: RunSettings = RunSettings(num_steps=600)
    rollout: GradientRollout = GradientRollout()
    sampler: TrainSampler = TrainSampler()
    objective: GradientObjective = GradientObjective()
    optim: CosineOptim = CosineOptim()
