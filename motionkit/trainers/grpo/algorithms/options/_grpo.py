"""Options of the algorithm `grpo`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from motionkit.config import Cli, Group
from motionkit.trainers.grpo.algorithms.options._shared import (
    GROUPS_ON_GPU,
    CosineOptim,
    CreditObjective,
    GroupRollout,
    WindowSampler,
)


class ExploredRollout(GroupRollout):
    """What is sampled before each update, and which noise tells the samples of a group apart."""

    antithetic: bool = Field(True, description="Samples 2i and 2i+1 of a group use opposite noise in the SDE window.")
    shared_noise: bool = Field(
        True, description="All samples of a group start from the same x_T, so that only trained steps tell them apart."
    )
    low_pass: float = Field(
        0.0,
        ge=0.0,
        description="Explore below this many Hz only: samples of a group share all faster step noise; 0 is off.",
    )
    micro_batch: int = Field(64, ge=1, description="(sample, timestep) pairs per forward and backward pass.")


class GrpoRollout(ExploredRollout):
    """What is sampled before each update: antithetic pairs of many prompts, which differ by slow noise only."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(32, ge=1, le=16384, description="Prompts per update.")
    group_size: Annotated[int, Cli("--group-size")] = Field(2, ge=2, le=4096, description="Samples per prompt (G).")
    low_pass: float = Field(
        3.0,
        ge=0.0,
        description="Explore below this many Hz only: samples of a group share all faster step noise; 0 is off.",
    )


class GrpoSampler(WindowSampler):
    """How the policy is sampled while it trains and while it is measured."""

    kind: Literal["ddim", "ddpm"] = Field("ddim", description="Reverse process of the rollouts.")
    eta: float = Field(1.0, ge=0.0, le=1.0, description="DDIM noise inside the window; outside it is 0.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        found = {"eta": "it is the noise of ddim, and sampler.kind is ddpm"} if self.kind == "ddpm" else {}
        return {**super().idle(), **found}


class GrpoObjective(CreditObjective):
    """The surrogate that is maximised."""

    ratio_norm: Literal["snr", "guard", "none"] = Field(
        "snr", description="Per-step normalisation of the log-ratio, which x0-prediction needs."
    )
    clip_range: Annotated[float, Cli("--clip-range")] = Field(
        0.2, gt=0.0, description="Clip range of the normalised ratio; acts from the second inner epoch on."
    )
    clip_high: float | None = Field(
        None, gt=0.0, description="Clip range upwards, where it differs (DAPO: 0.28); default: clip_range."
    )
    kl_coef: Annotated[float, Cli("--kl-coef")] = Field(
        0.0, ge=0.0, description="Weight of the closed-form KL to the reference, per dimension."
    )
    kl_target: float = Field(
        0.0,
        ge=0.0,
        description="KL to the reference (nats per dim) that kl_coef is adapted to, by halving and doubling; 0 is off.",
    )
    anchor: float = Field(
        20.0,
        ge=0.0,
        description="Smoothness penalty: keeps motions from jittering more than the reference's; 0 is off.",
    )
    inner_epochs: Annotated[int, Cli("--inner-epochs")] = Field(
        1, ge=1, description="Optimiser passes over each rollout."
    )
    kl_stop: float = Field(
        0.0,
        ge=0.0,
        description="Leave the inner epochs when the KL to the rollout policy passes this (nats per dim); 0 = never.",
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        later = "it acts from the second of objective.inner_epochs on, which is 1"
        found = dict.fromkeys(("clip_range", "clip_high", "kl_stop"), later) if self.inner_epochs == 1 else {}
        return {**super().idle(), **found}


class GrpoOptions(Group):
    """Options of the algorithm `grpo`."""

    gpu: ClassVar[Mapping[str, Any]] = GROUPS_ON_GPU
    rollout: GrpoRollout = GrpoRollout()
    sampler: GrpoSampler = GrpoSampler()
    objective: GrpoObjective = GrpoObjective()
    optim: CosineOptim = CosineOptim()
