"""TMR rewards: cosine, configurable matching score, and the segment-dense score. Light half, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from motionkit.config import Group, Place
from motionkit.plugins import Component
from motionkit.rewards._matching import PlainCosineOptions, ScoreOptions, SegmentOptions


class TmrOptions(Group):
    """What every TMR reward needs."""

    weights: Annotated[str, Place(("starter",))] = Field(
        "starter", description="Folder or file of the network, or 'starter'."
    )
    text_encoder: Annotated[Path | None, Place()] = Field(
        None, description="text_encoder.pt, instead of --reward.weights."
    )
    motion_encoder: Annotated[Path | None, Place()] = Field(
        None, description="motion_encoder.pt, instead of --reward.weights."
    )
    motion_decoder: Annotated[Path | None, Place()] = Field(
        None, description="motion_decoder.pt; checked, never needed to score."
    )
    heads: int = Field(0, ge=0, le=1024, description="Attention heads; 0 reads config.json, else takes 4.")
    stats: Annotated[Path | None, Place()] = Field(None, description="Folder with the network's own mean and std.")
    text_model: Annotated[str, Place(hub=True)] = Field(
        "", description="Text model: name, folder, hub id, or precomputed token_embeddings folder."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.text_encoder is None) != (self.motion_encoder is None):
            raise ValueError("text_encoder and motion_encoder are given together or not at all.")
        if self.text_encoder is not None and self.weights != "starter":
            raise ValueError("give either weights or text_encoder + motion_encoder, not both.")
        if self.motion_decoder is not None and self.motion_encoder is None:
            raise ValueError("motion_decoder goes with text_encoder and motion_encoder.")
        return self


class CosineOptions(PlainCosineOptions, TmrOptions):
    """Options of `tmr-cosine`."""


class MatchingOptions(ScoreOptions, TmrOptions):
    """Options of `tmr-matching`."""


class DenseOptions(SegmentOptions, TmrOptions):
    """Options of `tmr-dense`."""


cosine = Component(
    "TMR cosine of whole motion and whole text", CosineOptions, "motionkit.rewards.tmr._reward:TmrCosine", gradient=True
)
matching = Component(
    "TMR matching score, cosine or euclidean",
    MatchingOptions,
    "motionkit.rewards.tmr._reward:TmrMatching",
    gradient=True,
)
dense = Component(
    "TMR score per segment, minus confusion with other segments",
    DenseOptions,
    "motionkit.rewards.tmr._reward:TmrDense",
    gradient=True,
)
