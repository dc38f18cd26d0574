"""Options of the algorithms. Imports no torch.

The groups of an algorithm take the place of the settings' groups of the same name, which they extend, so that its
options are reached as ``rollout.group_size``, ``sampler.window_size`` and ``objective.clip_range``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Cli, Group, RunSettings, SamplerSettings
from motionkit.trainers.grpo._settings import GrpoOptimSettings, ObjectiveSettings, RolloutSettings

_SAMPLES = 2**17
"""Samples per update; each takes up to 200 KB."""


class GrpoRollout(RolloutSettings):
    """What is sampled before each update."""

    group_size: Annotated[int, Cli("--group-size")] = Field(8, ge=2, le=4096, description="Samples per prompt (G).")
    antithetic: bool = Field(True, description="Samples 2i and 2i+1 of a group use opposite noise in the SDE window.")
    shared_noise: bool = Field(
        True, description="All samples of a group start from the same x_T, so that only trained steps tell them apart."
    )
    micro_batch: int = Field(64, ge=1, description="(sample, timestep) pairs per forward and backward pass.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.prompts * self.group_size > _SAMPLES:
            raise ValueError(f"{self.prompts} prompts x {self.group_size} samples are more than {_SAMPLES} per update")
        return self


class TrainSampler(SamplerSettings):
    """How the policy is sampled while it trains and while it is measured."""

    train_timesteps: Annotated[int, Cli("--train-timesteps")] = Field(
        5, ge=1, le=10_000, description="Sampling steps of a rollout: a subset of the trained timesteps."
    )
    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        5, ge=1, le=10_000, description="Sampling steps of the held-out measurement (deterministic DDIM)."
    )
    spacing: Literal["early", "even"] = Field(
        "early", description="Timesteps visited: early is densest at the noisy end, where a motion is decided."
    )
    guidance_scale: Annotated[float, Cli("--guidance-scale")] = Field(
        1.0, ge=0.0, description="Classifier-free guidance of rollouts, training and measurement; 1 is off."
    )


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


class GrpoObjective(ObjectiveSettings):
    """The surrogate that is maximised."""

    advantage: Literal["leave-one-out", "global-std", "group-std"] = Field(
        "leave-one-out", description="How rewards become advantages."
    )
    std_floor: float = Field(0.02, ge=0.0, description="Smallest standard deviation an advantage is divided by.")
    advantage_clip: float = Field(5.0, gt=0.0, description="Advantages are clipped to this magnitude.")
    credit: Annotated[Literal["sample", "segment"], Cli("--credit")] = Field(
        "segment", description="segment: each segment's advantage weighs its own frames; sample: one for all frames."
    )
    credit_share: float = Field(
        0.0, ge=0.0, le=1.0, description="Share of the whole-sample advantage mixed into each segment's."
    )
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
        found = {}
        if self.credit == "sample":
            found["credit_share"] = "it acts with objective.credit segment only"
        if self.inner_epochs == 1:
            found["kl_stop"] = "it acts from the second of objective.inner_epochs on"
        return found


class GrpoOptions(Group):
    """Options of the algorithm `grpo`."""

    rollout: GrpoRollout = GrpoRollout()
    sampler: GrpoSampler = GrpoSampler()
    objective: GrpoObjective = GrpoObjective()


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


class GradientOptim(GrpoOptimSettings):
    """AdamW; the learning rate falls along a cosine."""

    schedule: Literal["constant", "cosine"] = Field("cosine", description="Learning rate after the warm-up.")


class GradientOptions(Group):
    """Options of the algorithm `reward-gradient`."""

    run: RunSettings = RunSettings(num_steps=600)
    rollout: GradientRollout = GradientRollout()
    sampler: TrainSampler = TrainSampler()
    objective: GradientObjective = GradientObjective()
    optim: GradientOptim = GradientOptim()
