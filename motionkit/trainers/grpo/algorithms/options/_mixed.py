"""Options of the algorithm `mixed`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from motionkit.config import Cli, Group, RunSettings
from motionkit.trainers.grpo.algorithms.options._grpo import ExploredRollout, GrpoSampler
from motionkit.trainers.grpo.algorithms.options._shared import CosineOptim, HoldObjective


class MixedRollout(ExploredRollout):
    """What is sampled before each update: small groups, since most of the gradient needs none."""

    group_size: Annotated[int, Cli("--group-size")] = Field(4, ge=2, le=4096, description="Samples per prompt (G).")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")


class MixedObjective(HoldObjective):
    """What is minimised beside the negative rewards."""

    save_memory: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Compute each step twice and keep one in memory; auto: for large networks and many steps.",
    )


class MixedOptions(Group):
    """Options of the algorithm `mixed`."""

    gpu: ClassVar[Mapping[str, Any]] = {"rollout.prompts": 32}
    run: RunSettings = RunSettings(num_steps=300)
    rollout: MixedRollout = MixedRollout()
    sampler: GrpoSampler = GrpoSampler()
    objective: MixedObjective = MixedObjective()
    optim: CosineOptim = CosineOptim()
