"""Settings of ``eval sa2va``. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from motionkit.config import Chosen, Cli, slot
from motionkit.contracts.protocol import DEVICE_HELP, SPLIT_HELP, Argument, ProtocolSettings, Split, dataset_plan
from motionkit.plugins import Component


class Sa2vaSettings(ProtocolSettings):
    """Measure a region policy: cIoU, gIoU, precision, METEOR, both loops closed, and absent objects.

    A run is compared with the policy that it started from, which also judges its captions.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("RUN", "Run of sa2va-rl or pretrain regions, or a policy folder; default: the starter's.", ""),
    )
    explains: ClassVar[bool] = True

    policy: Chosen | None = slot(
        "policies", None, description="Region policy to measure; default: that of the run.", gives="regions"
    )
    dataset: Chosen | None = slot(
        "datasets", None, description="Where regions come from; default: that of the run, or shapes.", gives="regions"
    )
    split: Split = Field("val", description=SPLIT_HELP)
    regions: Annotated[int, Cli("--regions", panel="What")] = Field(
        200, ge=0, description="Regions to measure, the first of the split; 0: all of them."
    )
    base: Annotated[str, Cli("--base", panel="What")] = Field(
        "", description="Run, folder or starter to compare with, which also judges; default: what the run started from."
    )
    temperature: Annotated[float, Cli("--temperature", panel="Sampler")] = Field(
        1.0, gt=0, le=10, description="Temperature of sampled captions."
    )
    batch_size: Annotated[int, Cli("--batch-size", panel="Sampler")] = Field(
        32, ge=1, le=10_000, description="Regions at once; changes memory and time only."
    )
    seed: Annotated[int, Cli("--seed", panel="Sampler")] = Field(
        0, ge=0, lt=2**31, description="Seed of sampled captions and of the intervals."
    )
    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Folder for the result, its pictures and its page evaluation.html; default: none."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an evaluation in that folder."
    )
    device: Annotated[str, Cli("--device", panel="Run")] = Field("auto", description=DEVICE_HELP)
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0: one on a small machine, else torch's choice."
    )

    def plan(self, model: str) -> Mapping[str, object]:
        """Return the data that follow from the run of the model."""
        return dataset_plan(model, self.dataset)


component = Component(
    summary="Measure a region policy: masks, captions, both loops closed",
    options=Sa2vaSettings,
    factory="motionkit_regions.evaluate:Sa2va",
    reads="regions",
    metrics="motionkit_regions.metrics:METRICS",
)
