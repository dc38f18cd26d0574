"""Dataset 'demo-regions': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class Options(Group):
    """Options of dataset 'demo-regions'; each becomes a flag, such as --dataset.root."""

    root: Path | None = Field(None, description="Folder with NAME.jpg, NAME.mask.png and NAME.txt (required).")


component = Component(
    summary="What dataset 'demo-regions' holds, in one line",
    options=Options,
    factory="motionkit_dataset_demo_regions.dataset:DemoRegionsDataset",
    gives="regions",
)
