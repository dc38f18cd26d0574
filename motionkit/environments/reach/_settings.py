"""Settings of the reaching task. Imports no numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

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

    @classmethod
    def usual(cls, command: str, given: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
        """Return settings by default; see `motionkit.environments.base.Environment`."""
        if given.get("kind") == "point":
            return {}
        steps = {"run.num_steps": 80 if policy == "mlp" else 120} if command == "ppo" else {}
        return {**steps, "episodes.num_envs": 64, "episodes.steps": 32}


def as_recorded(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a recorded table of an environment with the kind that it meant.

    Without one it is a point's: those were written when there was no arm, and a point's spec still has none.
    """
    if spec.get("name") == "reach" and "kind" not in spec:
        return {**spec, "kind": "point"}
    return spec
