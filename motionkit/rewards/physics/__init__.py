"""Physics reward: feet that do not slide, motion that does not jitter. Light half, no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class PhysicsOptions(Group):
    """Options of `physics`."""

    shape: Literal["reward", "guide"] = Field(
        "reward", description="reward: jerk is best at the real median; guide: the lower the better."
    )
    lambda_skate: float = Field(1.0, ge=0.0, description="Weight of foot skate.")
    lambda_jerk: float = Field(1.0, ge=0.0, description="Weight of jerk.")
    heights: tuple[float, ...] = Field(
        (0.05,), min_length=1, description="Contact height in metres, one value or one per foot joint."
    )
    r_s: float = Field(0.0, ge=0.0, description="Reference skate in m/s; 0 takes the dataset's train median.")
    r_j: float = Field(0.0, ge=0.0, description="Reference jerk in m/s^3; 0 takes the dataset's train median.")


component = Component(
    "Foot skate and jerk against the dataset's medians",
    PhysicsOptions,
    "motionkit.rewards.physics._reward:Physics",
    gradient=True,
)
