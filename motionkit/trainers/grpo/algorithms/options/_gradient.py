"""Options of the algorithm `reward-gradient`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from motionkit.config import Cli, Group, RunSettings
from motionkit.trainers.grpo._settings import RolloutSettings
from motionkit.trainers.grpo.algorithms.options._shared import CosineOptim, HoldObjective, TrainSampler


class GradientRollout(RolloutSettings):
    """What is sampled before each update."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(16, ge=1, le=16384, description="Prompts per update.")
    samples: int = Field(1, ge=1, le=8, description="Motions per prompt; objective.diversity needs two.")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")


class GradientSampler(TrainSampler):
    """How the policy is sampled while it trains and while it is measured."""

    jitter: bool = Field(True, description="Draw the timesteps of each rollout around those of the spacing.")


class GradientObjective(HoldObjective):
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
    hold: float = Field(
        4.0, ge=0.0, description="Weight of the distance to the reference's predictions, times alpha-bar of the step."
    )
    diversity: float = Field(
        0.0, ge=0.0, description="Weight of the log of how far the motions of a prompt differ, such as 0.01; 0 is off."
    )


class GradientOptim(CosineOptim):
    """AdamW; the learning rate falls along a cosine."""

    lora_rate: ClassVar[float] = 3e-3

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(
        0.0, ge=0.0, description="Peak learning rate; 0 picks 3e-3 for LoRA and 1e-4 for full fine-tuning."
    )


class GradientOptions(Group):
    """Options of the algorithm `reward-gradient`."""

    gpu: ClassVar[Mapping[str, Any]] = {"rollout.prompts": 64}
    run: RunSettings = RunSettings(num_steps=420)
    rollout: GradientRollout = GradientRollout()
    sampler: GradientSampler = GradientSampler()
    objective: GradientObjective = GradientObjective()
    optim: GradientOptim = GradientOptim()
