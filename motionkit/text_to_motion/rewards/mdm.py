"""Rewards of the text-to-motion evaluator: matching, R-precision, both, and per segment. Light half, no torch.

The name ``mdm`` is that of the training guides: MDM is measured with this evaluator (Guo et al., CVPR 2022).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Group, Place
from motionkit.plugins import Component
from motionkit.text_to_motion.rewards.components import JointSpaceOptions, ScoreOptions, SegmentOptions

_MODULE = "motionkit.text_to_motion.rewards.ranked"


class EvaluatorOptions(Group):
    """Options of all rewards of the evaluator."""

    weights: Annotated[str, Place(("starter",), hub=True)] = Field(
        "starter", description="Folder or file of the network, its id on the Hugging Face hub, or 'starter'."
    )
    glove: Annotated[Path | None, Place()] = Field(
        None, description="Folder with our_vab_data.npy, our_vab_words.pkl and our_vab_idx.pkl."
    )
    stats: Annotated[Path | None, Place()] = Field(None, description="Folder with the network's own mean and std.")
    # In its statistics the root's sigmas are 25 times smaller than those of other networks: 20 of those are 500 here.
    clamp: float = Field(500.0, ge=0.0, description="Cut normalised features to this many sigmas; 0 never cuts.")


class OtherTexts(Group):
    """The texts among which a motion's text is ranked."""

    graded: bool = Field(False, description="1 - rank / 31 in place of the hits, so that groups keep their variance.")
    split: Literal["train", "val"] = Field("train", description="Split that the 31 other texts are drawn from.")
    seed: int = Field(0, ge=0, description="Chooses the other texts; a prompt always gets the same.")


class MatchingOptions(EvaluatorOptions, ScoreOptions):
    """Options of `mdm-matching`; the evaluator was trained with euclidean distances."""

    similarity: Literal["cosine", "euclidean"] = Field("euclidean", description="How latents are compared.")


class DenseOptions(EvaluatorOptions, SegmentOptions):
    """Options of `mdm-dense`."""


class PrecisionOptions(OtherTexts, EvaluatorOptions, JointSpaceOptions):
    """Options of `mdm-r-precision`."""


class CombinedOptions(OtherTexts, MatchingOptions):
    """Options of `mdm-combined`."""

    matching_weight: float = Field(0.7, ge=0.0, description="Weight of the matching score.")
    precision_weight: float = Field(0.3, ge=0.0, description="Weight of the R-precision.")


matching = Component(
    "T2M evaluator: distance of whole motion and whole text", MatchingOptions, f"{_MODULE}:MdmMatching", gradient=True
)
precision = Component(
    "T2M evaluator: rank of the motion's text among 31 others", PrecisionOptions, f"{_MODULE}:MdmRPrecision"
)
combined = Component("T2M evaluator: matching and R-precision", CombinedOptions, f"{_MODULE}:MdmCombined")
dense = Component(
    "T2M evaluator: score per segment, minus confusion with other segments",
    DenseOptions,
    f"{_MODULE}:MdmDense",
    gradient=True,
)
