"""What rewards that compare a motion with a text in a joint space have in common. Light half, no torch.

TMR and the T2M evaluator map texts and motions to one space. The rewards of both differ in the network only: options,
formulas and segments are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Group

_DISTANCE_ONLY = "it acts with similarity = euclidean only"


class JointSpaceOptions(Group):
    """What every reward of a joint space has."""

    clamp: float = Field(20.0, ge=0.0, description="Cut normalised features to this many sigmas; 0 never cuts.")
    device: str = Field("", description="Device of the network, such as cuda:1; empty: that of the policy.")


class ScoreOptions(JointSpaceOptions):
    """How two latents become a score; the same for the positive and the negative term of a dense reward."""

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
        found = {"range": "it acts with similarity = cosine only"}
        if self.normalization == "linear":
            return found | {"scale": "it acts with normalization = exponential or sigmoid"}
        return found | {"max_distance": "it acts with normalization = linear"}

    @model_validator(mode="after")
    def _only_what_acts(self) -> Self:
        for name, why in self.idle().items():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} has no effect: {why}.")
        return self


class PlainCosineOptions(ScoreOptions):
    """`ScoreOptions` of a reward that is the cosine and nothing else; the default of each option is accepted."""

    def idle(self) -> Mapping[str, str]:
        """Return all options but `range`."""
        names = ("similarity", "normalization", "max_distance", "scale")
        return dict.fromkeys(names, "the reward is the cosine; tmr-matching has a choice")


class SegmentOptions(ScoreOptions):
    """`ScoreOptions` of a reward per segment."""

    alpha: float = Field(
        0.5, ge=0.0, description="Penalty for matching another segment's text better than its own; 0 is off."
    )
