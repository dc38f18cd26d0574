"""Settings of the Fetch robot's tasks. Imports no MuJoCo."""

from __future__ import annotations

from pydantic import Field

from motionkit.config import Group


class MujocoSettings(Group):
    """Options of ``--env mujoco``."""

    id: str = Field(
        "FetchReach-v4",
        pattern=r"^Fetch(Reach|Push|Slide|PickAndPlace)(Dense)?-v4$",
        description="FetchReach-v4, FetchPush-v4, FetchSlide-v4, FetchPickAndPlace-v4; Dense before -v4 pays minus the "
        "distance.",
    )
    max_steps: int = Field(50, ge=1, le=100_000, description="Steps of an episode.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the pictures in pixels.")
