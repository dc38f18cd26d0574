"""Shape of a motion predictor. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Cli, Group

Head = Literal["delta", "one-shot", "both"]
Command = Literal["none", "path", "both"]


class PredictorSettings(Group):
    """Everything that fixes a predictor's network beside its skeleton."""

    head: Annotated[Head, Cli("--model.head")] = Field(
        "delta",
        description="delta: the turn of each joint, frame by frame; one-shot: all frames at once; both: blended.",
    )
    width: Annotated[int, Cli("--model.width")] = Field(512, ge=16, le=16_384, description="Width of the hidden layers; attention has a quarter of it.")
    layers: Annotated[int, Cli("--model.layers")] = Field(2, ge=1, le=64, description="Hidden layers after attention.")
    heads: int = Field(4, ge=1, le=256, description="Attention heads.")
    window: int = Field(25, ge=1, le=1024, description="Frames that attention sees, the last one included; 1: none.")
    lags: tuple[int, ...] = Field(
        (1, 2, 4), min_length=1, max_length=16, description="Differences to the frames so far back are read as well."
    )
    dropout: Annotated[float, Cli("--model.dropout")] = Field(0.1, ge=0, lt=1, description="Dropout while training.")
    command: Annotated[Command, Cli("--command")] = Field(
        "both", description="Trained with the path of the root ahead (path), without (none), or for either use (both)."
    )
    ahead: tuple[float, ...] = Field(
        (0.15, 0.3, 0.6), min_length=1, max_length=16, description="Seconds ahead of the path's points that are read."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % (4 * self.heads):
            raise ValueError(f"heads {self.heads} must divide a quarter of width {self.width}, which attention has")
        if self.layers * self.width * self.width > 5 * 10**8:
            raise ValueError(f"{self.layers} layers of width {self.width} are too many weights to train")
        if min(self.lags) < 1 or max(self.lags) > 1024:
            raise ValueError("lags must be 1 to 1024 frames")
        if min(self.ahead) <= 0 or max(self.ahead) > 60:
            raise ValueError("ahead must be above 0 and at most 60 seconds")
        return self

    @property
    def past(self) -> int:
        """Known frames that the network needs at least."""
        return max(self.lags) + 1
