"""Rewards of motions as plugins: TMR's, physics, movement. Light half, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Group, Place
from motionkit.plugins import Component

_DISTANCE_ONLY = "it acts with similarity = euclidean only"


class JointSpaceOptions(Group):
    """Options of rewards in a joint space of texts and motions, by TMR or the T2M evaluator."""

    clamp: float = Field(20.0, ge=0.0, description="Cut normalised features to this many sigmas; 0 never cuts.")
    device: str = Field("", description="Device of the network, such as cuda:1; empty: that of the policy.")


class ScoreOptions(JointSpaceOptions):
    """Score of two latents, for the positive and the negative term of a dense reward alike."""

    similarity: Literal["cosine", "euclidean"] = Field("cosine", description="How latents are compared.")
    normalization: Literal["linear", "exponential", "sigmoid"] = Field(
        "linear", description="Euclidean only: 1 - d/max_distance, exp(-d/scale) or sigmoid(-d/scale)."
    )
    max_distance: float = Field(10.0, gt=0.0, description="Euclidean, linear: distance that scores 0.")
    scale: float = Field(2.0, gt=0.0, description="Euclidean, exponential and sigmoid: length scale.")
    range: Literal["unit", "raw"] = Field("unit", description="Cosine only: (raw + 1) / 2, or the raw cosine.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect, see `motionkit.config.Group.idle`."""
        if self.similarity == "cosine":
            return dict.fromkeys(("normalization", "max_distance", "scale"), _DISTANCE_ONLY)
        result = {"range": "it acts with similarity = cosine only"}
        if self.normalization == "linear":
            return result | {"scale": "it acts with normalization = exponential or sigmoid"}
        return result | {"max_distance": "it acts with normalization = linear"}

    @model_validator(mode="after")
    def _only_what_acts(self) -> Self:
        for name, why in self.idle().items():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} has no effect: {why}.")
        return self


class PlainCosineOptions(ScoreOptions):
    """`ScoreOptions` of a reward that is the cosine; other options must have their defaults."""

    def idle(self) -> Mapping[str, str]:
        """Return all options but `range`."""
        names = ("similarity", "normalization", "max_distance", "scale")
        return dict.fromkeys(names, "the reward is the cosine; tmr-matching has a choice")


class SegmentOptions(ScoreOptions):
    """`ScoreOptions` of a reward per segment."""

    alpha: float = Field(
        0.5, ge=0.0, description="Penalty for matching another segment's text better than its own; 0 is off."
    )


class MovementOptions(Group):
    """`movement` has no options."""


movement = Component(
    "Energy of hands and feet by frequency, against reference clips of the same action",
    MovementOptions,
    "motionkit.text_to_motion.rewards.motion_terms:Movement",
    gradient=True,
)


class PhysicsOptions(Group):
    """Options of `physics`."""

    shape: Literal["reward", "guide"] = Field(
        "reward", description="reward: jerk is best at the median of reference clips; guide: the lower the better."
    )
    lambda_skate: float = Field(1.0, ge=0.0, description="Weight of foot skate.")
    lambda_jerk: float = Field(1.0, ge=0.0, description="Weight of jerk.")
    heights: tuple[float, ...] = Field(
        (0.05,), min_length=1, description="Contact height in metres, one value or one per foot joint."
    )
    r_s: float = Field(0.0, ge=0.0, description="Reference skate in m/s; 0 takes the dataset's train median.")
    r_j: float = Field(0.0, ge=0.0, description="Reference jerk in m/s^3; 0 takes the dataset's train median.")


physics = Component(
    "Foot skate and jerk against the dataset's medians",
    PhysicsOptions,
    "motionkit.text_to_motion.rewards.motion_terms:Physics",
    gradient=True,
)


class TmrOptions(Group):
    """Options of all TMR rewards."""

    weights: Annotated[str, Place(("starter",), hub=True)] = Field(
        "starter", description="Folder or file of the network, its id on the Hugging Face hub, or 'starter'."
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
    text_model: Annotated[str, Place(hub=True, name=True)] = Field(
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
    "TMR cosine of whole motion and whole text",
    CosineOptions,
    "motionkit.text_to_motion.rewards.joint_space:TmrCosine",
    gradient=True,
)
matching = Component(
    "TMR matching score, cosine or euclidean",
    MatchingOptions,
    "motionkit.text_to_motion.rewards.joint_space:TmrMatching",
    gradient=True,
)
dense = Component(
    "TMR score per segment, minus confusion with other segments",
    DenseOptions,
    "motionkit.text_to_motion.rewards.joint_space:TmrDense",
    gradient=True,
)
