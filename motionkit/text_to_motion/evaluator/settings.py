"""`motionkit pretrain t2m-evaluator`: training of a text-to-motion evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from motionkit.config import Cli, Group
from motionkit.plugins import Component
from motionkit.text_to_motion.pairs.settings import PairSettings
from motionkit.training.settings import OptimSettings


class EvaluatorModelSettings(Group):
    """Widths of the networks; the defaults are small, the published model's are in brackets."""

    latent_dim: Annotated[int, Cli("--model.latent-dim")] = Field(
        default=64, ge=2, le=4096, description="Width of the co-embedding (published: 512)."
    )
    movement_hidden: int = Field(default=96, ge=1, le=8192, description="Channels of the first convolution (512).")
    movement: int = Field(default=64, ge=1, le=8192, description="Width of a movement step, four frames (512).")
    motion_hidden: int = Field(default=96, ge=1, le=8192, description="Width of the motion GRU per direction (1024).")
    text_hidden: int = Field(default=80, ge=1, le=8192, description="Width of the text GRU per direction (512).")
    dropout: float = Field(default=0.2, ge=0, lt=1, description="Dropout of the convolutions (0.2).")


class EvaluatorWordSettings(Group):
    """The fixed vectors of words in front of the text encoder."""

    glove: Annotated[Path | None, Cli("--glove")] = Field(
        default=None, description="Folder of the published our_vab_* files; left out, the starter's word vectors."
    )
    width: int = Field(default=64, ge=1, le=384, description="Numbers per word of the starter's vectors.")
    dropout: float = Field(default=0.15, ge=0, lt=1, description="Share of words left out of training captions (0).")
    noise: float = Field(
        default=0.5, ge=0, description="Std of noise on the word vectors in training, relative to theirs (0)."
    )


class EvaluatorLossSettings(Group):
    """The two losses on distances of the co-embedding."""

    margin: float = Field(default=10.0, gt=0, description="Distance from which a wrong pair costs nothing (10).")
    hinge: float = Field(
        default=0.1, ge=0, description="Weight of the published loss: d^2 of pairs, (margin - d)^2 of one wrong pair."
    )
    nce: float = Field(
        default=1.0, ge=0, description="Weight of the InfoNCE of distances over the batch (published: 0)."
    )
    negatives: float = Field(
        default=0.1, ge=0, description="Weight of (margin - d)^2 of changed copies, which count as wrong pairs."
    )
    temperature: float = Field(default=1.0, gt=0, description="Temperature of the InfoNCE, in units of distance.")


class PretrainEvaluatorSettings(PairSettings):
    """Settings of `motionkit pretrain t2m-evaluator`."""

    model: EvaluatorModelSettings = EvaluatorModelSettings()
    words: EvaluatorWordSettings = EvaluatorWordSettings()
    loss: EvaluatorLossSettings = EvaluatorLossSettings()
    optim: OptimSettings = OptimSettings(learning_rate=1e-3, weight_decay=0.01, warmup_steps=100)


component = Component(
    summary="Train a text-to-motion evaluator on a dataset (Guo et al.): R-precision, MM-Dist, FID.",
    options=PretrainEvaluatorSettings,
    factory="motionkit.text_to_motion.evaluator.train:PretrainEvaluator",
    metrics="motionkit.text_to_motion.metrics:METRICS",
    models="motionkit.text_to_motion.models:MODELS",
    next="motionkit.text_to_motion.next:after_scorer",
)
