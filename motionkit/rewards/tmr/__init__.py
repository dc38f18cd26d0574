"""TMR rewards: cosine, configurable matching score, and the segment-dense score. Light half, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Group
from motionkit.plugins import Component


class TmrOptions(Group):
    """What every TMR reward needs."""

    weights: str = Field("starter", description="TMR folder or file, or 'starter'.")
    text_encoder: Path | None = Field(None, description="text_encoder.pt, instead of --reward.weights.")
    motion_encoder: Path | None = Field(None, description="motion_encoder.pt, instead of --reward.weights.")
    motion_decoder: Path | None = Field(None, description="motion_decoder.pt; checked, never needed to score.")
    heads: int = Field(0, ge=0, le=1024, description="Attention heads; 0 reads config.json, else takes 4.")
    stats: Path | None = Field(None, description="Folder with TMR's own mean and std (.pt or .npy).")
    text_model: str = Field("", description="Text model: name, folder, hub id, or precomputed token_embeddings folder.")
    clamp: float = Field(20.0, ge=0.0, description="Cut normalised features to this many sigmas; 0 never cuts.")
    range: Literal["unit", "raw"] = Field("unit", description="unit: (raw + 1) / 2; raw: the cosine itself.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.text_encoder is None) != (self.motion_encoder is None):
            raise ValueError("text_encoder and motion_encoder are given together or not at all.")
        if self.text_encoder is not None and self.weights != "starter":
            raise ValueError("give either weights or text_encoder + motion_encoder, not both.")
        if self.motion_decoder is not None and self.motion_encoder is None:
            raise ValueError("motion_decoder goes with text_encoder and motion_encoder.")
        return self


class CosineOptions(TmrOptions):
    """Options of `tmr-cosine`."""


class MatchingOptions(TmrOptions):
    """Options of `tmr-matching`."""

    similarity: Literal["cosine", "euclidean"] = Field("cosine", description="How latents are compared.")
    normalization: Literal["linear", "exponential", "sigmoid"] = Field(
        "linear", description="Euclidean only: 1 - d/max_distance, exp(-d/scale) or sigmoid(-d/scale)."
    )
    max_distance: float = Field(10.0, gt=0.0, description="Euclidean, linear: distance that scores 0.")
    scale: float = Field(2.0, gt=0.0, description="Euclidean, exponential and sigmoid: length scale.")

    @model_validator(mode="after")
    def _only_what_acts(self) -> Self:
        linear = self.normalization == "linear"
        idle = {"scale": 2.0} if linear else {"max_distance": 10.0}
        if self.similarity == "cosine":
            idle = {"max_distance": 10.0, "scale": 2.0}
            if not linear:
                raise ValueError("normalization acts with similarity=euclidean only.")
        for name, default in idle.items():
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name} does not act with similarity={self.similarity}, normalization={self.normalization}."
                )
        return self


class DenseOptions(TmrOptions):
    """Options of `tmr-dense`."""

    alpha: float = Field(
        0.5, ge=0.0, description="Penalty for matching another segment's text better than its own; 0 is off."
    )


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

__all__ = ["CosineOptions", "DenseOptions", "MatchingOptions", "TmrOptions", "cosine", "dense", "matching"]
