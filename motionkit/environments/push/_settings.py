"""Settings of the pushing task. Imports no numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from motionkit.config import Group


class PushSettings(Group):
    """Options of ``--env push``; lengths are in units of which the picture is two wide."""

    max_steps: int = Field(30, ge=1, le=100_000, description="Steps of an episode.")
    radius: float = Field(0.15, gt=0, le=1, description="Distance from block to goal that counts as success.")
    min_distance: float = Field(0.2, ge=0, le=0.9, description="Smallest distance of block and goal at the start.")
    max_distance: float = Field(0.6, gt=0, le=0.9, description="Largest distance of block and goal at the start.")
    friction: float = Field(0.3, ge=0, le=2, description="Coefficient of friction between finger and block.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the picture in pixels.")
    reward: Literal["sparse", "dense"] = Field(
        "sparse", description="The environment's own reward: 1 in success and else 0, or minus the distance."
    )
    terminate_on_success: bool = Field(False, description="End an episode with its first success.")

    @classmethod
    def usual(cls, command: str, given: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
        """Return settings by default; see `motionkit.environments.base.Environment`.

        A random policy seldom succeeds, so there are more episodes than elsewhere, and many copies for speed. Without
        an entropy bonus some policies stop exploring before they have learned to go round the block.
        """
        own = {"run.num_steps": 240, "objective.entropy": 0.005} if command == "ppo" else {"run.num_steps": 64}
        return {**own, "episodes.num_envs": 128, "episodes.steps": 32, "objective.batch_size": 512}
