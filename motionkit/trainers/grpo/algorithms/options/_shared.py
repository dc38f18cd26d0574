"""Groups of options that several algorithms have. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Cli, SamplerSettings
from motionkit.trainers.grpo._settings import GrpoOptimSettings, ObjectiveSettings, RolloutSettings

_SAMPLES = 2**17
"""Samples per update; each takes up to 200 KB."""


GROUPS_ON_GPU: Mapping[str, Any] = {"rollout.prompts": 32, "rollout.group_size": 16, "rollout.micro_batch": 512}
"""What ``--preset gpu`` sets where groups are compared: more and larger groups, forwards of 512 motions."""


class GroupRollout(RolloutSettings):
    """What is sampled before each update: a group of motions per prompt, which are compared to each other."""

    group_size: Annotated[int, Cli("--group-size")] = Field(8, ge=2, le=4096, description="Samples per prompt (G).")

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


class WindowSampler(TrainSampler):
    """Which steps of a rollout are stochastic, hence trained."""

    window: Literal["fixed", "sliding", "snr"] = Field(
        "fixed",
        description="Steps that are stochastic and trained: always the same, moving from noisy to clean, or the "
        "noisiest ones up to a share of the information.",
    )
    window_start: int = Field(0, ge=0, description="First rollout step that is stochastic and trained.")
    window_size: int = Field(2, ge=0, description="How many rollout steps are stochastic and trained.")
    window_shift: int = Field(1, ge=1, description="Steps that a sliding window moves at a time.")
    window_every: int = Field(25, ge=1, description="Updates after which a sliding window moves.")
    window_share: float = Field(
        0.05, gt=0.0, le=1.0, description="Share of the summed squared sensitivity that window snr trains at most."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        acting = {
            "window_start": ("fixed", "sliding"),
            "window_size": ("fixed", "sliding"),
            "window_shift": ("sliding",),
            "window_every": ("sliding",),
            "window_share": ("snr",),
        }
        return {
            name: f"it acts with sampler.window {' or '.join(kinds)} only"
            for name, kinds in acting.items()
            if self.window not in kinds
        }


class SegmentObjective(ObjectiveSettings):
    """Which frames a reward acts on."""

    credit: Annotated[Literal["sample", "segment"], Cli("--credit")] = Field(
        "segment", description="segment: each segment's advantage weighs its own frames; sample: one for all frames."
    )


class CreditObjective(SegmentObjective):
    """How the rewards of a group become advantages."""

    advantage: Literal["leave-one-out", "global-std", "group-std", "dr-grpo"] = Field(
        "leave-one-out", description="How rewards become advantages; dr-grpo divides by no standard deviation."
    )
    std_floor: float = Field(0.02, ge=0.0, description="Smallest standard deviation an advantage is divided by.")
    advantage_clip: float = Field(5.0, gt=0.0, description="Advantages are clipped to this magnitude.")
    credit_share: float = Field(
        0.0, ge=0.0, le=1.0, description="Share of the whole-sample advantage mixed into each segment's."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        found = {} if self.credit == "segment" else {"credit_share": "it acts with objective.credit segment only"}
        undivided = {"std_floor": "advantage dr-grpo divides by no standard deviation"}
        return found | (undivided if self.advantage == "dr-grpo" else {})


class HoldObjective(ObjectiveSettings):
    """What is minimised beside the negative reward, by algorithms that follow its gradient."""

    anchor: float = Field(
        5.0, ge=0.0, description="Smoothness penalty: keeps motions from jittering more than the reference's; 0 is off."
    )
    hold: float = Field(
        8.0, ge=0.0, description="Weight of the distance to the reference's predictions, times alpha-bar of the step."
    )
    jerk: float | None = Field(
        None, ge=0.0, description="Weight of the log of jerk per speed; default: 0.12, and 0 with a physics reward."
    )
    skate: float | None = Field(
        None, ge=0.0, description="Weight of the foot skate in m/s; default: 0.02, and 0 with a physics reward."
    )


class CosineOptim(GrpoOptimSettings):
    """AdamW; the learning rate falls along a cosine."""

    schedule: Literal["constant", "cosine"] = Field("cosine", description="Learning rate after the warm-up.")
