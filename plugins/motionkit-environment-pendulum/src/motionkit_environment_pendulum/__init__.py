"""Environment `pendulum`: the light half. It imports no gymnasium, so that listings and help stay quick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class PendulumOptions(Group):
    """Options of ``--env pendulum``; each becomes a flag, such as ``--env.motor``."""

    max_steps: int = Field(60, ge=1, le=100_000, description="Steps of an episode; one lasts 0.1 s.")
    motor: float = Field(
        0.6, gt=0, le=10, description="Largest torque, as a share of the one that holds the pendulum level."
    )
    radius: float = Field(
        0.15, gt=0, le=1, description="Distance from bob to mark that counts as success; the picture is two wide."
    )
    min_angle: float = Field(0.5, ge=0, le=3, description="Smallest angle of the mark from the lowest place, radians.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the picture in pixels.")
    reward: Literal["sparse", "dense"] = Field(
        "sparse", description="The environment's own reward: 1 in success and else 0, or minus the distance."
    )
    terminate_on_success: bool = Field(False, description="End an episode with its first success.")

    @classmethod
    def usual(cls, command: str, given: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
        """Return settings by default; see `motionkit_success.environments.base.Environment`."""
        steps = {"run.num_steps": 80} if command == "ppo" else {}
        return {**steps, "episodes.num_envs": 64, "episodes.steps": 32}


component = Component(
    summary="A pendulum with a motor too weak to lift it swings its bob to a green mark; 64 x 64 camera.",
    options=PendulumOptions,
    factory="motionkit_environment_pendulum.environment:Pendulum",
)

__all__ = ["PendulumOptions", "component"]
