"""Dataset 'demo': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of dataset 'demo'; each becomes a flag, such as --dataset.root."""

    root: Path | None = Field(None, description="Folder with NAME.npy (features) and NAME.txt (captions) (required).")
    fps: float = Field(20.0, gt=0, description="Frames per second.")
    max_length: int = Field(196, ge=40, description="Longest motion in frames.")


component = Component(
    summary="What dataset 'demo' holds, in one line",
    options=Options,
    factory="motionkit_dataset_demo.dataset:DemoDataset",
)
