"""Groups of options of the algorithms on finished samples: `awm`, `nft` and `dpo`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from motionkit.config import Cli, Group, RunSettings
from motionkit.trainers.grpo._settings import ObjectiveSettings
from motionkit.trainers.grpo.algorithms.options._shared import GROUPS_ON_GPU, CosineOptim, GroupRollout, TrainSampler


class MatchingRollout(GroupRollout):
    """What is sampled before each update."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(16, ge=1, le=16384, description="Prompts per update.")
    group_size: Annotated[int, Cli("--group-size")] = Field(4, ge=2, le=4096, description="Samples per prompt (G).")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")
    micro_batch: int = Field(64, ge=1, description="(sample, timestep) pairs per forward and backward pass.")
    averaged: bool = Field(False, description="Sample with the moving average of the weights (ema.decay).")


class MatchingObjective(ObjectiveSettings):
    """Where finished samples are matched."""

    noisiest: float = Field(
        0.12, gt=0.0, le=1.0, description="Share of the timesteps, from the noisy end, at which samples are matched."
    )
    draws: int = Field(2, ge=1, le=10_000, description="Noised states per sample and pass.")
    inner_epochs: Annotated[int, Cli("--inner-epochs")] = Field(
        1, ge=1, description="Optimiser passes over each rollout."
    )
    anchor: float = Field(
        20.0,
        ge=0.0,
        description="Smoothness penalty: keeps motions from jittering more than the reference's; 0 is off.",
    )
    hold: float = Field(
        8.0, ge=0.0, description="Weight of the distance to the reference's predictions, times alpha-bar of the step."
    )


class MatchingOptions(Group):
    """Options that each of these algorithms has."""

    gpu: ClassVar[Mapping[str, Any]] = GROUPS_ON_GPU
    run: RunSettings = RunSettings(num_steps=200)
    rollout: MatchingRollout = MatchingRollout()
    sampler: TrainSampler = TrainSampler()
    objective: MatchingObjective = MatchingObjective()
    optim: CosineOptim = CosineOptim()
