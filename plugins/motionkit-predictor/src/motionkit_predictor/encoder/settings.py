"""`motionkit pretrain mpl-encoder`: supervised training of the predictor's motion encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from motionkit.config import Cli, Group, Place, split_commas
from motionkit.plugins import Component
from motionkit.training.settings import EpochRunSettings, OptimSettings, TrainerSettings


class EncoderModelSettings(Group):
    """Shape of the encoder."""

    width: Annotated[int, Cli("--model.width")] = Field(
        256, ge=8, le=16_384, description="Features of a frame, width of all layers."
    )
    layers: Annotated[int, Cli("--model.layers")] = Field(
        3, ge=1, le=64, description="Layers: linear, GELU, dropout each."
    )
    history: int = Field(3, ge=1, le=64, description="Poses that a frame is read with, its own included.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout while training.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.layers * self.width * self.width > 5 * 10**8:
            raise ValueError(f"{self.layers} layers of width {self.width} are too many weights to train")
        return self


class EncoderTrainSettings(Group):
    """Targets, batches, and small changes of what is read."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(
        16, ge=1, le=65_536, description="Batch, in stretches: so many times train.stretch frames."
    )
    stretch: int = Field(
        32, ge=1, le=4096, description="Frames of a stretch; they are drawn one by one, from all clips."
    )
    period: Literal["hilbert", "edges"] = Field(
        "hilbert", description="Phase of the contacts: of their analytic signal, or counted from contact to contact."
    )
    ahead: float = Field(0.1, gt=0, le=2, description="Seconds ahead of the pose that the pose head predicts.")
    noise_std: float = Field(0.02, ge=0, le=1, description="Std of noise on what is read, in deviations.")
    hide_contacts: float = Field(
        0.1, ge=0, le=1, description="Share of frames whose contacts are hidden (0.5), as in data without them."
    )
    final_rate: float = Field(0.02, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    val_every: int = Field(1, ge=0, description="Epochs between measurements on the validation clips; 0: at the end.")


class EncoderLossSettings(Group):
    """Weights of the losses; docs/predictor.md defines them."""

    period: float = Field(1.0, ge=0, le=1e6, description="Squares of the soft period's errors, weighed by confidence.")
    gait: float = Field(0.3, ge=0, le=1e6, description="Cross-entropy of the soft gait.")
    pose: float = Field(1.0, ge=0, le=1e6, description="Smooth L1 of the turns to the pose ahead, in deviations.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.period + self.gait + self.pose:
            raise ValueError("period, gait and pose are all 0: there is nothing to learn")
        return self


class EncoderRunSettings(EpochRunSettings):
    """Where the run goes and how long it lasts."""

    epochs: Annotated[int, Cli("--epochs", panel="Run")] = Field(
        15, ge=1, le=1_000_000, description="Passes over the training frames."
    )


class PretrainEncoderSettings(TrainerSettings):
    """Settings of `motionkit pretrain mpl-encoder`."""

    run: EncoderRunSettings = EncoderRunSettings()
    data: Annotated[tuple[str, ...], BeforeValidator(split_commas), Cli("--data"), Place(("starter",))] = Field(
        ("starter",), min_length=1, description="Motion files or folders with rotations, or starter."
    )
    fps: Annotated[float, Cli("--fps")] = Field(
        30.0, ge=0, le=1000, description="Frames per second of the encoder; 0: the clips' own."
    )
    retarget: Annotated[str, Cli("--retarget")] = Field(
        "first",
        description="Which of --data has the skeleton that clips of other skeletons are brought to; first: the first "
        "one.",
    )
    model: EncoderModelSettings = EncoderModelSettings()
    train: EncoderTrainSettings = EncoderTrainSettings()
    loss: EncoderLossSettings = EncoderLossSettings()
    optim: OptimSettings = OptimSettings(learning_rate=1e-3, weight_decay=0.01, warmup_steps=30)

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {
            **super().idle(),
            **({"retarget": "--data is starter"} if self.data == ("starter",) and self.retarget else {}),
        }


component = Component(
    summary="Train a motion encoder for the motion predictor: phase, gait and next pose of each frame (MPL).",
    options=PretrainEncoderSettings,
    factory="motionkit_predictor.encoder.train:PretrainEncoder",
    metrics="motionkit_predictor.metrics:METRICS",
    models="motionkit_predictor.models:MODELS",
    next="motionkit_predictor.next:after_encoder",
)
