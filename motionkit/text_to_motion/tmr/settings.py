"""`motionkit pretrain tmr`: training of a text-to-motion retrieval model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Cli, Group
from motionkit.plugins import Component
from motionkit.text_to_motion.pairs.settings import PairSettings, refuse_size
from motionkit.training.settings import OptimSettings


class TmrModelSettings(Group):
    """Shape of the encoders; the defaults are small, the published model's are in brackets."""

    latent_dim: Annotated[int, Cli("--model.latent-dim")] = Field(
        default=128, ge=2, le=16384, description="Width of the joint space and of the transformers (published: 256)."
    )
    layers: Annotated[int, Cli("--model.layers")] = Field(
        default=3, ge=1, le=256, description="Transformer layers (published: 6)."
    )
    patch_size: Annotated[int, Cli("--model.patch-size")] = Field(
        default=4, ge=1, le=1024, description="Frames per token (published: 1)."
    )
    num_heads: int = Field(default=4, ge=1, le=1024, description="Attention heads (published: 4).")
    ff_size: int = Field(default=256, ge=1, le=65536, description="Width of the feed-forward (published: 1024).")
    dropout: float = Field(default=0.1, ge=0, lt=1, description="Dropout (published: 0.1).")
    variational: bool = Field(
        default=False,
        description="Train on samples of a Gaussian latent (published: yes); scores use its mean. Learns slower.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        refuse_size(self.layers, self.latent_dim, self.ff_size)
        if self.latent_dim % self.num_heads:
            raise ValueError(f"num_heads {self.num_heads} must divide latent_dim {self.latent_dim}.")
        return self


class TmrTextSettings(Group):
    """The frozen text encoder in front of TMR's own."""

    encoder: Annotated[Literal["auto", "clip", "distilbert", "minilm", "stored"], Cli("--text.encoder")] = Field(
        default="auto", description="auto: the stored table for the starter dataset, minilm for others."
    )
    model: Annotated[str, Cli("--text.model")] = Field(
        default="", description="Text model: folder, hub id, or precomputed token_embeddings folder."
    )


class LossSettings(Group):
    """Weights and constants of the loss (Petrovich et al. 2023); in brackets the published value if it differs."""

    recons: float = Field(
        default=0.0,
        ge=0,
        description="Smooth L1 of motion decoded from either latent (published: 1); 0: no decoder, 3 times faster.",
    )
    kl: float = Field(default=1e-5, ge=0, description="KL between the latents and to the prior.")
    latent: float = Field(default=1e-5, ge=0, description="Smooth L1 between text and motion latent.")
    contrastive: float = Field(default=0.1, gt=0, description="InfoNCE over the batch.")
    negatives: float = Field(default=0.5, ge=0, description="Weight of changed copies scoring below their clip.")
    temperature: float = Field(default=0.1, gt=0, description="Temperature of the InfoNCE.")
    threshold: float = Field(
        default=0.8,
        gt=0.5,
        le=1,
        description="A pair is not a negative when the cosine of its sentences is above 2 threshold - 1; 1 keeps all.",
    )


class PretrainTMRSettings(PairSettings):
    """Settings of `motionkit pretrain tmr`."""

    init: Annotated[str, Cli("--init")] = Field(
        default="",
        description="TMR to go on from: 'starter', a folder of motionkit's or a released one, a run; its shape, text "
        "model and statistics are kept. Default: random weights.",
    )
    model: TmrModelSettings = TmrModelSettings()
    text: TmrTextSettings = TmrTextSettings()
    loss: LossSettings = LossSettings()
    optim: OptimSettings = OptimSettings(learning_rate=5e-4, weight_decay=0.01, warmup_steps=100)


component = Component(
    summary="Train a text-to-motion retrieval model on a dataset (TMR).",
    options=PretrainTMRSettings,
    factory="motionkit.text_to_motion.tmr.train:PretrainTMR",
    metrics="motionkit.text_to_motion.metrics:METRICS",
    models="motionkit.text_to_motion.models:MODELS",
    next="motionkit.text_to_motion.next:after_scorer",
)
