"""`motionkit pretrain regions`: a region policy from images, masks and captions. Imports no torch."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from motionkit.config import Chosen, Cli, Group, slot, with_later
from motionkit.plugins import Component
from motionkit.training.settings import CheckpointSettings, OptimSettings, RunSettings, TrainerSettings
from motionkit_regions.small_settings import BEFORE, RegionSettings


class RegionRunSettings(RunSettings):
    """Where the run goes and how long it lasts."""

    num_steps: Annotated[int, Cli("--num-steps", panel="Run")] = Field(
        2000, ge=1, description="Total training steps, including those before a resume."
    )


class RegionTrainSettings(Group):
    """Batches."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(48, ge=1, le=65_536, description="Regions of a step.")
    final_rate: float = Field(0.05, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    val_every: int = Field(100, ge=0, description="Steps between measurements on validation regions; 0: none.")
    val_regions: int = Field(200, ge=2, le=1_000_000, description="Regions of one.")
    absent: float = Field(
        0.25,
        ge=0,
        le=1,
        description="Share of the regions of a step whose image is also asked for what it does not show.",
    )
    best: bool = Field(True, description="Keep the policy that was best on the validation regions, not the last.")


class PretrainRegionsSettings(TrainerSettings):
    """Train a small region policy with the parts of Sa2VA."""

    run: RegionRunSettings = RegionRunSettings()
    checkpoint: CheckpointSettings = CheckpointSettings(every=200)
    dataset: Chosen = slot("datasets", "shapes", gives="regions", description="Where regions come from.")
    model: RegionSettings = RegionSettings()
    train: RegionTrainSettings = RegionTrainSettings()
    optim: OptimSettings = OptimSettings(learning_rate=2e-3, weight_decay=0.01, warmup_steps=30)

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {**super().idle(), "precision": "the policy is trained in float32"}

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a run's settings with later features switched off; see `Settings.recorded`."""
        settings = with_later(table, {"model": BEFORE, "train": {"absent": 0.0, "best": False}})
        if not settings["train"].get("eyes", 0):  # steps without captions came and went; most runs had none
            settings["train"] = {name: value for name, value in settings["train"].items() if name != "eyes"}
        return settings


component = Component(
    "Train a region policy: captions of regions and masks of captions.",
    PretrainRegionsSettings,
    "motionkit_regions.pretrain:PretrainRegions",
    metrics="motionkit_regions.metrics:METRICS",
    sections="motionkit_regions.pages:SECTIONS",
    charts="motionkit_regions.pages:CHARTS",
    models="motionkit_regions.models:MODELS",
    next="motionkit_regions.next:after_pretraining",
)
