"""Options of the algorithm `flow-grpo`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Cli, Group
from motionkit.trainers.grpo.algorithms.options._grpo import ExploredRollout, GrpoObjective
from motionkit.trainers.grpo.algorithms.options._shared import GROUPS_ON_GPU, WindowSampler


class FlowSampler(WindowSampler):
    """How the policy is sampled while it trains and while it is measured."""

    train_timesteps: Annotated[int, Cli("--train-timesteps")] = Field(
        10, ge=1, le=10_000, description="Sampling steps of a rollout: a subset of the trained timesteps."
    )
    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        40, ge=1, le=10_000, description="Sampling steps of the held-out measurement (deterministic)."
    )
    kind: Literal["flow-sde", "dance-sde", "cps"] = Field(
        "flow-sde", description="Noise of a rollout: Flow-GRPO's, DanceGRPO's, or coefficients-preserving sampling."
    )
    noise_scale: Annotated[float, Cli("--noise-scale")] = Field(
        0.7,
        gt=0.0,
        description="Noise per step. flow-sde: a in a sqrt(t / (1 - t)); dance-sde: the same at all t, 0.3 is usual; "
        "cps: share of the noise that is drawn anew, as sin(a pi / 2), at most 1.",
    )
    window_size: int = Field(4, ge=0, description="How many rollout steps are stochastic and trained.")
    ode_steps: int = Field(
        3, ge=1, le=10_000, description="Steps at the end of a rollout that add no noise, whatever the window."
    )

    @model_validator(mode="after")
    def _share(self) -> Self:
        if self.kind == "cps" and self.noise_scale > 1.0:
            raise ValueError(f"noise_scale is a share in sampler.kind cps: at most 1, not {self.noise_scale:g}")
        return self


class FlowOptions(Group):
    """Options of the algorithm `flow-grpo`."""

    gpu: ClassVar[Mapping[str, Any]] = GROUPS_ON_GPU
    rollout: ExploredRollout = ExploredRollout()
    sampler: FlowSampler = FlowSampler()
    objective: GrpoObjective = GrpoObjective()
