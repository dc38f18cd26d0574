"""Motion predictor: light half, imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Cli, Group
from motionkit.plugins import Component

FEW_FRAMES = 10_000
"""Training frames below which a large dropout is better; CMU's benchmark has 7,740."""

Head = Literal["delta", "one-shot", "both"]
Command = Literal["none", "path", "both"]


class PredictorSettings(Group):
    """Shape of a predictor's network."""

    head: Annotated[Head, Cli("--model.head")] = Field(
        "both",
        description="delta: the turn of each joint, frame by frame; one-shot: all frames at once; both: blended.",
    )
    width: Annotated[int, Cli("--model.width")] = Field(
        512, ge=16, le=16_384, description="Width of the hidden layers; attention has a quarter of it."
    )
    layers: Annotated[int, Cli("--model.layers")] = Field(2, ge=1, le=64, description="Hidden layers after attention.")
    heads: int = Field(4, ge=1, le=256, description="Attention heads.")
    window: int = Field(25, ge=1, le=1024, description="Frames that attention sees, the last one included; 1: none.")
    lags: tuple[float, ...] = Field(
        (0.0333, 0.0667, 0.1333, 0.3, 0.5333),
        min_length=1,
        max_length=16,
        description="Seconds back: the difference of the pose to each of these moments is read as well.",
    )
    dropout: Annotated[float | None, Cli("--model.dropout")] = Field(
        None, ge=0, lt=1, description="Dropout while training; default: 0.3 below 10,000 training frames, else 0.02."
    )
    shot: float = Field(1.0, gt=0, le=60, description="Seconds that the one-shot head predicts at once.")
    shot_share: float = Field(0.75, ge=0, le=1, description="Share of the one-shot head if there are both.")
    cosines: int = Field(10, ge=1, le=1024, description="Cosines of time that the one-shot head gives for a feature.")
    command: Annotated[Command, Cli("--command")] = Field(
        "both", description="Trained with the path of the root ahead (path), without (none), or for either use (both)."
    )
    ahead: tuple[float, ...] = Field(
        (0.15, 0.3, 0.6, 1.0),
        min_length=1,
        max_length=16,
        description="Seconds ahead of the path's points that are read.",
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        idle = {} if self.head == "both" else {"shot_share": "--model.head is not both"}
        if self.head == "delta":
            idle |= dict.fromkeys(("shot", "cosines"), "--model.head is delta")
        return idle | ({"ahead": "--command is none"} if self.command == "none" else {})

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % (4 * self.heads):
            raise ValueError(f"heads {self.heads} must divide a quarter of width {self.width}, which attention has")
        if self.layers * self.width * self.width > 5 * 10**8:
            raise ValueError(f"{self.layers} layers of width {self.width} are too many weights to train")
        for name in ("lags", "ahead"):
            times = getattr(self, name)
            if min(times) <= 0 or max(times) > 10 or list(times) != sorted(times):
                raise ValueError(f"{name} must rise and lie above 0 and within 10 seconds")
        return self

    def for_frames(self, frames: int) -> Self:
        """Return the settings with a dropout for so many training frames, if none was set."""
        if self.dropout is not None:
            return self
        return self.model_copy(update={"dropout": 0.3 if frames < FEW_FRAMES else 0.02})

    def lag_frames(self, fps: float) -> tuple[int, ...]:
        """Return `lags` in frames, at least one each."""
        return tuple(max(1, round(seconds * fps)) for seconds in self.lags)

    def ahead_frames(self, fps: float) -> tuple[int, ...]:
        """Return `ahead` in frames, at least one each."""
        return tuple(max(1, round(seconds * fps)) for seconds in self.ahead)


class MplOptions(Group):
    """Where a motion predictor comes from."""

    checkpoint: str = Field(default="", description="Run of train-mpl, one of its checkpoints, a folder or a hub id.")


component = Component(
    summary="Motion predictor: a run of train-mpl, or its exported folder",
    options=MplOptions,
    factory="motionkit_predictor.policy:open_predictor",
    gives="predictor",
    exports={
        "safetensors": "motionkit_predictor.export.write:export_weights",
        "numpy": "motionkit_predictor.export.write:export_numpy",
        "onnx": "motionkit_predictor.export.write:export_onnx",
    },
)
