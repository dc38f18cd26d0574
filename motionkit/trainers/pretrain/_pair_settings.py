"""Settings of training on pairs of a text and a motion."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from motionkit.config import Chosen, Cli, Group, OptimSettings, RunSettings, TrainerSettings, slot
from motionkit.trainers.pretrain._kinds import kinds_of


class PairTrainSettings(Group):
    """Batches, augmentation and what is measured."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(default=64, ge=2, le=65536, description="Clips per step.")
    crop_share: float = Field(default=0.5, ge=0, le=1, description="Share of clips that are cropped at random.")
    crop_min: int = Field(default=32, ge=1, description="Shortest random crop in frames.")
    noise: float = Field(default=0.0, ge=0, description="Std of noise added to normalised motions, against jitter.")
    half: Literal["all", "first", "second"] = Field(
        default="all", description="Train on all clips, or on every other one (a judge takes the other half)."
    )
    std_floor: float = Field(
        default=0.1, ge=0, description="Smallest Std of a feature, as a share of the dataset's own Std for its block."
    )
    final_rate: float = Field(default=0.05, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    negatives: Annotated[str, Cli("--negatives")] = Field(
        default="auto",
        description="Changed copies of a clip and of its caption that the pair is told from: NAME[=WEIGHT],... of "
        "kinds (motionkit eval sensitivity lists them) or of stillness, order, tempo, place, side, text; all; none; "
        "auto: all for the starter dataset, none for others.",
    )
    copies: float = Field(
        default=0.7, ge=0, le=1, description="Share of clips in a step that are shown changed as well, with negatives."
    )
    mirror: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Share of clips mirrored with their captions (0.5 with negatives, else 0).",
    )
    resize: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="Largest change of a body's size, as a share (0.15 with negatives, else 0).",
    )
    val_every: int = Field(default=0, ge=0, description="Steps between held-out retrievals; 0 at the end only.")
    val_clips: int = Field(default=1024, ge=2, description="Held-out clips used for retrieval.")
    short: int = Field(default=48, ge=1, description="Frames of the crops in the short-segment retrieval figures.")
    save_half: bool = Field(default=False, description="Store the weights as float16.")

    @field_validator("negatives")
    @classmethod
    def _readable(cls, value: str) -> str:
        kinds_of(value, starter=True)
        return value


class PairSettings(TrainerSettings):
    """What the trainers of TMR and of the evaluator share; each has its own model, losses and rate."""

    run: RunSettings = RunSettings(num_steps=2000)
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    loss: Group = Group()
    train: PairTrainSettings = PairTrainSettings()
    optim: OptimSettings = OptimSettings()
