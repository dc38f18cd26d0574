"""Settings of ``eval mpl``. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from motionkit.config import Chosen, Cli, slot, split_commas
from motionkit.contracts.protocol import DEVICE_HELP, Argument, ProtocolSettings, Split
from motionkit.plugins import Component
from motionkit_predictor.data.own import clips_of


class MplSettings(ProtocolSettings):
    """Measure a motion predictor, free-running and with teacher forcing, beside five baselines.

    Without MODEL the baselines are measured: hold, velocity, damped, ridge, nearest.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("MODEL", "Run or checkpoint of a motion predictor; default: none.", ""),
    )

    policy: Chosen | None = slot("policies", None, description="Motion predictor to measure.", gives="predictor")
    data: Annotated[tuple[str, ...], Cli("--data", panel="What")] = Field(
        (), description="Folder or file of clips with rotations, repeatable; default: those of the run, or starter."
    )
    split: Split = Field("val", description="Split to measure on; baselines are fitted to train.")
    horizons: Annotated[
        tuple[Annotated[float, Field(gt=0, le=60_000)], ...],
        BeforeValidator(split_commas),
        Cli("--horizons", panel="What"),
    ] = Field((100, 200, 400, 1000), min_length=1, description="How far ahead, in ms, comma-separated.")
    command: Annotated[Literal["none", "path"], Cli("--command", panel="What")] = Field(
        "none", description="What is known of the future; path: where the root goes, for model and baselines alike."
    )
    long: Annotated[
        tuple[Annotated[float, Field(ge=1, le=600)], ...], BeforeValidator(split_commas), Cli("--long", panel="What")
    ] = Field(
        (2, 5, 10, 30),
        max_length=8,
        description="Seconds at which long runs are measured, freely and along paths, comma-separated; '' leaves out.",
    )
    fps: Annotated[float, Cli("--fps", panel="Windows")] = Field(
        0.0, ge=0, description="Frames per second that clips are brought to; 0: the model's, else 30."
    )
    warmup: Annotated[int, Cli("--warmup", panel="Windows")] = Field(
        25, ge=2, le=10_000, description="Known frames of a window."
    )
    horizon: Annotated[int, Cli("--horizon", panel="Windows")] = Field(
        0, ge=0, le=10_000, description="Frames of a free run; 0: up to the furthest of --horizons."
    )
    stride: Annotated[int, Cli("--stride", panel="Windows")] = Field(
        5, ge=1, le=10_000, description="Frames between windows that are measured."
    )
    train_stride: int = Field(2, ge=1, le=10_000, description="Frames between windows that baselines are fitted to.")
    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Folder for the result, its page evaluation.html and predictions to look at; default: none."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an evaluation in that folder."
    )
    seed: Annotated[int, Cli("--seed", panel="Run")] = Field(0, ge=0, lt=2**63, description="Seed of the intervals.")
    device: Annotated[str, Cli("--device", panel="Run")] = Field("auto", description=DEVICE_HELP)
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0 leaves the choice to torch."
    )

    def plan(self, model: str) -> Mapping[str, object]:
        """Return the data that follow from the run of the model."""
        return {"data": ", ".join(clips_of(model, self.data, flag="--data"))}


component = Component(
    summary="Measure a motion predictor beside five baselines",
    options=MplSettings,
    factory="motionkit_predictor.evaluation.protocol:Mpl",
    reads="predictor",
    metrics="motionkit_predictor.metrics:METRICS",
)
