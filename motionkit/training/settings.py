"""Settings that every trainer shares, with the flags they have on every command. Imports no torch.

`TrainerSettings` is the base of a trainer's settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from motionkit.config import Cli, Group, Settings, split_commas

Tracker = Literal["tensorboard", "wandb", "clearml", "mlflow"]
Precision = Literal["fp32", "bf16"]
Matmul = Literal["auto", "onednn", "default"]

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:[0-9]{1,3})?")

Decay = Annotated[float, Field(ge=0, lt=1)]


class PlaceSettings(Group):
    """Where the run goes."""

    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Run folder itself, instead of runs/<command>/<time>-<id>."
    )
    name: Annotated[str | None, Cli("--name", panel="Run")] = Field(
        None, description="Last part of the run folder: runs/<command>/<name>."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an existing run folder."
    )
    resume: Annotated[Path | None, Cli("--resume", panel="Run")] = Field(
        None, description="Run to continue in place: its folder or whole name, or one of its checkpoints."
    )

    @field_validator("out", "resume", mode="before")
    @classmethod
    def _not_empty(cls, value: object) -> object:
        if value == "":  # as a path it would be the current folder
            raise ValueError("is empty: a variable that is not set?")
        return value

    @field_validator("resume")
    @classmethod
    def _in_its_own_folder(cls, value: Path | None, others: ValidationInfo) -> Path | None:
        given = [f"--{name}" for name in ("out", "name", "overwrite") if others.data.get(name)]
        out = others.data.get("out")
        if (
            value is not None
            and out is not None
            and out.absolute() in (value.absolute(), value.absolute().parent.parent)
        ):
            given.remove("--out")  # the same folder: a settings file may name it for both
        if value is not None and given:
            raise ValueError(f"a run continues in its own folder; leave out {' and '.join(given)}")
        return value

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[\w][\w.+=-]*", value):
            raise ValueError("must be a plain folder name (letters, digits, . + = - _); use --out for a path")
        return value


class RunSettings(PlaceSettings):
    """Where the run goes and how long it lasts."""

    num_steps: Annotated[int, Cli("--num-steps", panel="Run")] = Field(
        100, ge=1, description="Total training steps, including those before a resume."
    )


class EpochRunSettings(RunSettings):
    """A run that lasts for a number of passes over the training data; its trainer turns them into steps."""

    epochs: Annotated[int, Cli("--epochs", panel="Run")] = Field(
        10, ge=1, le=1_000_000, description="Passes over the training data."
    )
    num_steps: Annotated[int, Cli("--num-steps", panel="Run")] = Field(
        0, ge=0, description="Total training steps, including those before a resume; 0: as many as --epochs makes."
    )


class CheckpointSettings(Group):
    """When checkpoints are written and how many stay."""

    every: int = Field(25, ge=0, description="Steps between checkpoints; 0 saves at the end only.")
    keep: int = Field(2, ge=1, description="Newest checkpoints to keep.")


class LogSettings(Group):
    """How often metrics are written."""

    every: int = Field(1, ge=1, description="Steps between lines of metrics.jsonl.")


class OptimSettings(Group):
    """AdamW and the learning-rate schedule."""

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(1e-4, gt=0, description="Peak learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay.")
    betas: tuple[Decay, Decay] = Field((0.9, 0.999), description="Decay of the two AdamW moments.")
    grad_clip: float = Field(1.0, ge=0, description="Largest gradient norm; 0 never clips.")
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")


class TrainerSettings(Settings):
    """Base of every trainer's settings: subclass it and add the trainer's own groups."""

    run: RunSettings = RunSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    log: LogSettings = LogSettings()
    device: Annotated[str, Cli("--device", panel="Run")] = Field(
        "auto", description="auto, cpu, mps, cuda, cuda:N or N."
    )
    seed: Annotated[int, Cli("--seed", panel="Run")] = Field(
        0, ge=0, lt=2**63, description="Seed of every random number of the run."
    )
    precision: Annotated[Precision, Cli("--precision", panel="Run")] = Field(
        "fp32", description="Precision of the network; outputs, sampling and losses stay float32."
    )
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0 leaves the choice to torch."
    )
    cpu_matmul: Annotated[Matmul, Cli("--cpu-matmul", panel="Run")] = Field(
        "auto", description="Library of float32 matrix products on a CPU; auto: onednn for wide networks on AMD's."
    )
    track: Annotated[tuple[Tracker, ...], BeforeValidator(split_commas), Cli("--track", panel="Run")] = Field(
        (), description="Tracker in addition to metrics.jsonl, repeatable: tensorboard, wandb, clearml, mlflow."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.device in ("auto", "cpu") else {"cpu_matmul": f"the run is on {self.device}"}

    @field_validator("device", mode="before")
    @classmethod
    def _known_device(cls, value: object) -> object:
        text = str(value).strip().lower() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
        if text.isdecimal():
            text = f"cuda:{text}"
        if not _DEVICE.fullmatch(text):
            raise ValueError("must be auto, cpu, mps, cuda, cuda:N or N")
        return text
