"""Settings of `motionkit pretrain mdm`. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from motionkit.config import Chosen, Cli, Group, OptimSettings, RunSettings, TrainerSettings, slot
from motionkit.policies.mdm._settings import MDMSettings
from motionkit.trainers.pretrain._size import refuse_size


class MdmModelSettings(Group):
    """Shape of the network; the defaults are the starter policy's, the published model's are in brackets."""

    arch: Annotated[Literal["trans_enc", "trans_dec"], Cli("--model.arch")] = Field(
        default="trans_enc", description="Encoder with prefix tokens, or decoder with the text as memory."
    )
    layers: Annotated[int, Cli("--model.layers")] = Field(
        default=4, ge=1, le=256, description="Transformer layers (published: 8)."
    )
    latent_dim: Annotated[int, Cli("--model.latent-dim")] = Field(
        default=160, ge=2, le=16384, description="Features per token (published: 512)."
    )
    num_heads: int = Field(default=4, ge=1, le=1024, description="Attention heads (published: 4).")
    ff_size: int = Field(default=384, ge=1, le=65536, description="Width of the feed-forward (published: 1024).")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout (published: 0.1).")
    emb_trans_dec: bool = Field(default=False, description="Time embedding as a prefix of the decoder's input.")
    patch_size: Annotated[int, Cli("--model.patch-size")] = Field(
        default=4, ge=1, le=1024, description="Frames per token (published: 1)."
    )
    patch_overlap: bool | None = Field(
        default=None,
        description="Tokens also write into half of their neighbours' frames (published: no); default: where the patch "
        "size is even.",
    )
    clause_frames: bool = Field(default=True, description="Each frame is told its own clause (published: no).")
    diffusion_steps: int = Field(
        default=50, ge=2, le=10_000, description="Steps of the noise schedule (published: 50 or 1000)."
    )
    noise_schedule: Literal["cosine", "linear"] = Field(default="cosine", description="Form of the noise schedule.")
    noise_shift: float = Field(
        default=4.0, gt=0, le=1000, description="How many times as much noise each step has (published: 1)."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_size(self.layers, self.latent_dim, self.ff_size)
        try:
            self.network(0.0)
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
        return self

    def network(self, cond_mask_prob: float) -> MDMSettings:
        """Return the network's settings; features and text width follow from data and encoder."""
        values = self.model_dump()
        if self.patch_overlap is None:
            values["patch_overlap"] = self.patch_size % 2 == 0
        return MDMSettings(**values, mask_frames=True, cond_mask_prob=cond_mask_prob)


class MdmTextSettings(Group):
    """The frozen text encoder."""

    encoder: Annotated[Literal["auto", "clip", "distilbert", "minilm", "stored"], Cli("--text.encoder")] = Field(
        default="auto", description="auto: the stored table for the starter dataset, minilm for others."
    )
    model: Annotated[str, Cli("--text.model")] = Field(
        default="", description="Text model, a transformers folder or hub id; default: the local cache."
    )


class MdmTrainSettings(Group):
    """Batches and loss."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(default=64, ge=1, le=65536, description="Clips per step.")
    cond_drop: float = Field(default=0.1, ge=0, le=1, description="Share of samples trained without their text.")
    early: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of timesteps drawn densest at the noisy end (published: 0).",
    )
    clutter: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="clause_frames only: share of batches whose clips are set among unrelated pieces with unrelated "
        "texts, without loss.",
    )
    velocity: float = Field(
        default=1.0, ge=0, description="Weight of the frame-to-frame differences' error, against jitter (published: 0)."
    )
    joint_velocity: float = Field(
        default=1.0, ge=0, description="Weight of the joint velocities' error, in (m/s)^2 (published: 0)."
    )
    max_weight: float = Field(
        default=5.0,
        ge=1,
        description="Loss weight of a timestep: its signal-to-noise ratio, but at least 1 and at most this "
        "(published: 1).",
    )
    ema: float = Field(default=0.999, ge=0, lt=1, description="Decay of the averaged weights, which are what is saved.")
    final_rate: float = Field(default=0.02, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    val_every: int = Field(default=250, ge=0, description="Steps between held-out losses; 0 at the end only.")
    val_clips: int = Field(default=256, ge=1, description="Held-out clips used for the loss.")
    samples: int = Field(
        default=256,
        ge=0,
        description="Held-out captions sampled at the end, for FID in the judge's space and the page; 0 samples none.",
    )
    sampling_steps: int | None = Field(
        default=None,
        ge=0,
        description="Steps, densest at the noisy end, in which motionkit generate samples the policy; 0 takes all. "
        "Default: 20, or all of a shorter schedule.",
    )


class PretrainMDMSettings(TrainerSettings):
    """Settings of `motionkit pretrain mdm`."""

    run: RunSettings = RunSettings(num_steps=3000)
    init: Annotated[str, Cli("--init")] = Field(
        default="", description="Policy to start from: 'starter', a policy or run folder; default: random weights."
    )
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    judge: Chosen | None = slot(
        "rewards", None, description="Score and space of FID at the end, such as a TMR; default: the starter's judge."
    )
    model: MdmModelSettings = MdmModelSettings()
    text: MdmTextSettings = MdmTextSettings()
    train: MdmTrainSettings = MdmTrainSettings()
    optim: OptimSettings = OptimSettings(learning_rate=1e-3, weight_decay=0.01, warmup_steps=100)

    @model_validator(mode="after")
    def _there(self) -> Self:
        steps, most = self.train.sampling_steps, self.model.diffusion_steps
        if steps is not None and steps > most:
            raise ValueError(f"train.sampling_steps is {steps}, and model.diffusion_steps is {most}: use 0 to {most}")
        return self
