"""The starter dataset: procedural clips of single actions, and prompts of several. Light half, no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from motionkit.config import Group
from motionkit.plugins import Component


class StarterOptions(Group):
    """How much is generated, and which part of it is used."""

    clips: int = Field(
        4032, ge=1, le=100_000, description="Training clips, spread evenly over the catalogue's classes."
    )
    val_clips: int = Field(432, ge=1, le=100_000, description="Validation clips.")
    test_clips: int = Field(1152, ge=1, le=100_000, description="Test clips.")
    min_frames: int = Field(40, ge=20, description="Shortest clip in frames (20 fps).")
    max_frames: int = Field(120, le=196, description="Longest clip in frames (20 fps).")
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the generated clips.")
    part: Literal["all", "reward", "judge"] = Field(
        "all", description="Training clips to use: all, or one of two halves, for the reward TMR and the judge."
    )
    unseen: float = Field(
        0.5, ge=0.0, le=1.0, description="Share of validation and test captions worded in a way training never sees."
    )
    prompts: int = Field(1024, ge=1, le=100_000, description="Composite prompts per split.")
    min_segment: int = Field(40, ge=20, description="Shortest segment of a composite prompt in frames.")
    max_segment: int = Field(64, le=196, description="Longest segment of a composite prompt in frames.")
    cache: bool = Field(True, description="Keep generated clips in the user's cache folder (about 450 MB).")

    @model_validator(mode="after")
    def _ordered(self) -> StarterOptions:
        if self.min_frames > self.max_frames or self.min_segment > self.max_segment:
            raise ValueError("the shortest length must not be above the longest")
        return self


component = Component(
    summary="Procedural single actions with captions; composite prompts without ground truth; needs no download",
    options=StarterOptions,
    factory="motionkit.text_to_motion.data.starter_clips:Starter",
)
