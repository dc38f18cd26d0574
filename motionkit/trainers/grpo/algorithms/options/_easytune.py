"""Options of the algorithm `easytune`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from motionkit.config import Cli, Group, RunSettings
from motionkit.trainers.grpo._settings import RolloutSettings
from motionkit.trainers.grpo.algorithms.options._shared import CosineOptim, HoldObjective, TrainSampler


class EasyTuneRollout(RolloutSettings):
    """What is sampled before each update: one motion per prompt."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(16, ge=1, le=16384, description="Prompts per update.")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")


class EasyTuneObjective(HoldObjective):
    """What is minimised beside the negative reward of each step's prediction."""

    step_weight: Literal["uniform", "signal"] = Field(
        "uniform",
        description="Weight of a step's reward; signal: alpha-bar, since early predictions are blurred.",
    )


class EasyTuneOptions(Group):
    """Options of the algorithm `easytune`."""

    gpu: ClassVar[Mapping[str, Any]] = {"rollout.prompts": 64}
    run: RunSettings = RunSettings(num_steps=300)
    rollout: EasyTuneRollout = EasyTuneRollout()
    sampler: TrainSampler = TrainSampler()
    objective: EasyTuneObjective = EasyTuneObjective()
    optim: CosineOptim = CosineOptim()
