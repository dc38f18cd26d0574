"""Settings of the reaching task. Imports no numpy."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from motionkit.config import Group


class ReachSettings(Group):
    """Options of ``--env reach``; lengths are in units of which the picture is two wide."""

    kind: Literal["arm", "point"] = Field(
        "arm", description="arm: two joints with velocities; point: a gripper that moves freely, the arm is only drawn."
    )
    max_steps: int = Field(30, ge=1, le=100_000, description="Steps of an episode.")
    radius: float = Field(0.15, gt=0, le=1, description="Distance from gripper to goal that counts as success.")
    min_distance: float = Field(0.35, ge=0, le=1, description="Smallest distance at the start.")
    distractor: bool = Field(True, description="Draw a red disc that means nothing.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the picture in pixels.")
    reward: Literal["sparse", "dense"] = Field(
        "sparse", description="The environment's own reward: 1 in success and else 0, or minus the distance."
    )
    terminate_on_success: bool = Field(False, description="End an episode with its first success.")
