"""A trained success classifier as a reward. Light half, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class SuccessOptions(Group):
    """Options of `success-classifier`."""

    checkpoint: Path | None = Field(
        None, description="Run of reward-train, checkpoint, or the guide's checkpoint.pt; default: the newest run."
    )
    output: Literal["binary", "continuous"] = Field(
        "binary", description="1 from the classifier's threshold on and else 0, or the probability."
    )
    over: Literal["last", "any"] = Field(
        "last", description="Of a sequence of frames: its last frame counts, or the best one."
    )
    threshold: float = Field(0.0, ge=0, le=1, description="Probability that is a success; 0: the classifier's own.")


component = Component(
    "A success classifier's verdict on what the camera sees (reward-train makes one)",
    SuccessOptions,
    "motionkit.rewards.success._reward:SuccessReward",
    reads="image",
)

__all__ = ["SuccessOptions", "component"]
