"""Rewards of captions and masks, for `motionkit sa2va-rl`. Light half, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from motionkit.config import Group
from motionkit.plugins import Component


class NoOptions(Group):
    """No options."""


class BrevityOptions(Group):
    """Options of `brevity`."""

    longest: int | None = Field(
        None, ge=1, le=10_000, description="Words at which the score is 0; default: four times the mean of the data's "
        "captions, or 16."
    )  # fmt: skip


class FormatOptions(Group):
    """Options of `format`."""

    repeat: int = Field(3, ge=1, le=100, description="Words in a row that may not come twice.")


class MeteorOptions(Group):
    """Options of `meteor`."""

    tokenizer: Literal["words", "space"] = Field(
        "words", description="words parts punctuation from words; space splits at white space alone."
    )
    lexicon: Path | None = Field(None, description="Folder of WordNet's database files; default: WordNet 3.0.")


class LengthOptions(Group):
    """Options of `length`."""

    shortest: int = Field(3, ge=0, le=10_000, description="Words below which the score falls, to 0 without any.")
    longest: int = Field(12, ge=1, le=10_000, description="Words above which it falls, to 0 at twice as many.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError("shortest is above longest")
        return self


class RuleOptions(Group):
    """Options of `rule`."""

    match: Literal["exact", "number", "pattern"] = Field(
        "exact", description="exact: the same words; number: the same last number; pattern: a regular expression."
    )
    pattern: str = Field("", description="Regular expression that is searched for, with match pattern.")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        import re

        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"is not a regular expression: {error}") from error
        return pattern


_FACTORY = "motionkit_regions.reward_terms"
iou = Component(
    "Overlap of a mask with the wanted one (IoU)", NoOptions, f"{_FACTORY}:Iou", reads="mask"
)  # fmt: skip
iou_truth = Component(
    "The same, by the name of the auxiliary reward: a sampled mask against the data's", NoOptions,
    f"{_FACTORY}:IouTruth", reads="mask",
)  # fmt: skip
box_iou = Component("Overlap of the boxes around two masks", NoOptions, f"{_FACTORY}:BoxIou", reads="mask")
contrast = Component(
    "Overlap of a mask with the wanted one, minus the best overlap with another object of the image", NoOptions,
    f"{_FACTORY}:Contrast", reads="mask",
)  # fmt: skip
brevity = Component(
    "Captions of few words: each word costs the same", BrevityOptions, f"{_FACTORY}:Brevity", reads="text"
)
mask_confidence = Component(
    "How sure the model is of a mask (SAM's stability score)", NoOptions, f"{_FACTORY}:MaskConfidence",
    reads="mask",
)  # fmt: skip
format_ = Component(
    "1 for a caption that says something, ends and does not repeat itself, else 0", FormatOptions,
    f"{_FACTORY}:Format", reads="text",
)  # fmt: skip
meteor = Component(
    "How much a caption says what the wanted one says (METEOR)", MeteorOptions, f"{_FACTORY}:MeteorReward", reads="text"
)
length = Component("Captions that are neither short nor long", LengthOptions, f"{_FACTORY}:Length", reads="text")
distinct = Component("Share of a caption's words that are said once", NoOptions, f"{_FACTORY}:Distinct", reads="text")
rule = Component("1 if a text matches by a rule, else 0", RuleOptions, f"{_FACTORY}:Rule", reads="text")
