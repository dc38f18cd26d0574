"""Windows of clips. Light half, imports no torch."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from motionkit.config import Cli, Group, split_commas


class WindowSettings(Group):
    """Windows of clips, batches, and what is measured while training."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(64, ge=1, le=65_536, description="Windows per batch.")
    seq_len: Annotated[int, Cli("--seq-len")] = Field(
        55, ge=3, le=4096, description="Frames of a window: those that are known, and those to predict."
    )
    known: int = Field(25, ge=2, le=4096, description="Known frames of a window.")
    stride: int = Field(2, ge=1, description="Frames between the beginnings of two windows of a clip.")
    accumulation_steps: int = Field(1, ge=1, le=1024, description="Batches per update.")
    ema: float = Field(0.99, ge=0, lt=1, description="Decay of the averaged weights that are kept; 0: none.")
    final_rate: float = Field(0.02, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    val_every: int = Field(1, ge=0, description="Epochs between free runs on the validation clips; 0: at the end only.")
    val_stride: int = Field(5, ge=1, description="Frames between the windows that are measured.")
    shot_batches: int = Field(
        6, ge=1, le=64, description="Optimiser steps of the one-shot head per update; each costs a tenth of a free run."
    )
    path_share: float = Field(0.5, ge=0, le=1, description="Share of windows with a command, if command is both.")
    path_off: float = Field(
        0.15, ge=0, le=10,
        description="Std in metres (and radians) that a command begins off the motion, which comes back to it in time.",
    )  # fmt: skip
    long: Annotated[tuple[Annotated[float, Field(ge=1, le=600)], ...], BeforeValidator(split_commas)] = Field(
        (2, 5, 10, 30),
        max_length=8,
        description="Seconds at which long runs are measured at the end; empty: not at all.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.known >= self.seq_len:
            raise ValueError(f"seq_len {self.seq_len} leaves no frame to predict after {self.known} known ones")
        return self
