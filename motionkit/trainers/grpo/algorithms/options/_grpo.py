"""Options of the algorithm `grpo`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Cli, Group
from motionkit.trainers.grpo.algorithms.options._shared import CreditObjective, GroupRollout, TrainSampler


class GrpoRollout(GroupRollout):
    """What is sampled before each update."""

    antithetic: bool = Field(True, description="Samples 2i and 2i+1 of a group use opposite noise in the SDE window.")
    shared_noise: bool = Field(
        True, description="All samples of a group start from the same x_T, so that only trained steps tell them apart."
    )
    micro_batch: int = Field(64, ge=1, description="(sample, timestep) pairs per forward and backward pass.")


class GrpoSampler(TrainSampler):
    """How the policy is sampled while it trains and while it is measured."""

    kind: Literal["ddim", "ddpm"] = Field("ddim", description="Reverse process of the rollouts.")
    eta: float = Field(1.0, ge=0.0, le=1.0, description="DDIM noise inside the window; outside it is 0.")
    window_start: int = Field(0, ge=0, description="First rollout step that is stochastic and trained.")
    window_size: int = Field(2, ge=0, description="How many rollout steps are stochastic and trained.")
    noise_scale: Annotated[float, Cli("--noise-scale")] = Field(
        0.7, gt=0.0, description="SDE noise of flow-grpo; has no effect in grpo."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        found = {"noise_scale": "it is the SDE noise of flow-grpo; grpo takes its noise from sampler.eta"}
        return found | ({"eta": "it is the noise of ddim, and sampler.kind is ddpm"} if self.kind == "ddpm" else {})


class GrpoObjective(CreditObjective):
    """The surrogate that is maximised."""

    ratio_norm: Literal["snr", "guard", "none"] = Field(
        "snr", description="Per-step normalisation of the log-ratio, which x0-prediction needs."
    )
    clip_range: Annotated[float, Cli("--clip-range")] = Field(
        0.2, gt=0.0, description="Clip range of the normalised ratio; acts from the second inner epoch on."
    )
    kl_coef: Annotated[float, Cli("--kl-coef")] = Field(
        0.0, ge=0.0, description="Weight of the closed-form KL to the reference, per dimension."
    )
    anchor: float = Field(
        20.0,
        ge=0.0,
        description="Weight of what keeps predictions as smooth as the reference's; 0 is off.",
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
        found = {"kl_stop": "it acts from the second of objective.inner_epochs on"} if self.inner_epochs == 1 else {}
        return {**super().idle(), **found}


class GrpoOptions(Group):
    """Options of the algorithm `grpo`."""

    rollout: GrpoRollout = GrpoRollout()
    sampler: GrpoSampler = GrpoSampler()
    objective: GrpoObjective = GrpoObjective()
