"""The built-in region policy: captions of regions and masks of captions. Light half, imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from motionkit.config import Group
from motionkit.plugins import Component


class RegionSettings(Group):
    """Sizes of the built-in region policy."""

    image_size: int = Field(48, ge=16, le=1024, multiple_of=8, description="Height and width of the images.")
    mask_size: int = Field(24, ge=8, le=1024, description="Height and width of the masks.")
    vision: int = Field(32, ge=4, le=1024, description="Channels of the vision encoder.")
    width: int = Field(96, ge=8, le=4096, description="Width of the language model.")
    layers: int = Field(3, ge=1, le=64, description="Layers of the language model.")
    attention: Literal["causal", "prefix"] = Field(
        "prefix",
        description="What a text to draw reads. causal: each word those before it; prefix: image and text all of each "
        "other. Captions are written word by word.",
    )
    heads: int = Field(4, ge=1, le=64, description="Heads of the language model.")
    prompt: int = Field(32, ge=2, le=1024, description="Numbers of a segmentation prompt: what [SEG] becomes.")
    region: Literal["pooled", "word"] = Field(
        "word",
        description="What the language model reads of a region. pooled: the mean of the cells in it; word: the mean of "
        "the image's words in it, four cells each.",
    )
    channels: int = Field(32, ge=4, le=1024, description="Channels of the grounding encoder.")
    places: bool = Field(True, description="Let the mask decoder read where each pixel is.")
    resize: bool = Field(
        False, description="Squeeze images of other sizes to image_size, whatever their shape; else they are refused."
    )
    max_words: int = Field(16, ge=2, le=512, description="Longest caption in words, its end included.")

    @model_validator(mode="after")
    def _fits(self) -> RegionSettings:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.image_size % self.mask_size:
            raise ValueError(f"image_size {self.image_size} is not a multiple of mask_size {self.mask_size}")
        return self


BEFORE = {"region": "pooled", "places": False, "attention": "causal", "resize": False}
"""Settings that were added later, with the values of the time before."""


class RegionOptions(Group):
    """Origin of the policy."""

    checkpoint: str = Field(
        "starter", min_length=1, description="starter, or a run, checkpoint, folder or hub id of such a policy."
    )
    resize: bool = Field(
        False, description="Squeeze every image to the few pixels that the policy sees; else other sizes are refused."
    )


component = Component(
    "Small region policy with the parts of Sa2VA, for the built-in shapes; runs on a CPU",
    RegionOptions,
    "motionkit_regions.small:open_regions",
    gives="regions",
    later={"resize": False},
)
