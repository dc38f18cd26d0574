"""Settings of ManiSkill's tasks. Imports no ManiSkill."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from motionkit.config import Group


class ManiskillSettings(Group):
    """Options of ``--env maniskill``."""

    id: str = Field(
        "PickCube-v1", pattern=r"^[A-Za-z0-9_]+-v\d+$", description="Task of ManiSkill with the camera base_camera."
    )
    control: str = Field("pd_ee_delta_pos", min_length=1, description="Control mode of the arm.")
    reward: Literal["normalized_dense", "dense", "sparse"] = Field(
        "normalized_dense", description="The environment's own reward, as ManiSkill names it."
    )
    max_steps: int = Field(50, ge=1, le=100_000, description="Steps of an episode.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the picture in pixels.")
    field_of_view: float = Field(
        0.9, gt=0, lt=3, description="Field of view of the camera in radians; ManiSkill's own is 1.57."
    )
    terminate_on_success: bool = Field(False, description="End an episode with its first success.")
