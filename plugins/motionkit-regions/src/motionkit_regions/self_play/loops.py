"""Loops of self-play: plugins of the group ``motionkit.loops``. Light half, imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class MaskToCaptionOptions(Group):
    """Options of `mask-to-caption`."""

    kl: Literal["k3", "exact"] = Field(
        "k3", description="KL of a word: estimated from its own probability, or over the whole vocabulary, which takes "
        "the memory of all logits."
    )  # fmt: skip
    listen: float = Field(
        0.5,
        ge=0,
        le=1e6,
        description="Weight of the loss of the policy's own mask of its captions, times their reward.",
    )


class CaptionToMaskOptions(Group):
    """Options of `caption-to-mask`."""

    action: Literal["gaussian", "multimask", "bernoulli", "supervised"] = Field(
        "gaussian",
        description="What is sampled: the prompt of the mask decoder, one of SAM's candidate masks, every pixel; or "
        "nothing: the data's masks are learned, weighted by the reward.",
    )
    sigma: float = Field(
        0.5, gt=0, le=100, description="gaussian: spread, in standard deviations of the policy's own prompts."
    )
    learn: float = Field(
        1.0, ge=0, le=1e6, description="Weight of the loss of the data's mask of a caption, times the reward."
    )
    absent: float = Field(
        0.5, ge=0, le=1, description="Share of captions of what the image does not show, of which the mask is empty."
    )
    tau: float = Field(1.0, gt=0, le=100, description="multimask: temperature of the candidates' scores.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        why = f"the action is {self.action}"
        return {name: why for name, action in (("sigma", "gaussian"), ("tau", "multimask")) if self.action != action}


_ROOM = "motionkit_regions.self_play.turns"
mask_to_caption = Component(
    "Captions of a region; the partner draws a mask of each", MaskToCaptionOptions,
    f"{_ROOM}:MaskToCaption", later={"listen": 0.0},
)  # fmt: skip
caption_to_mask = Component(
    "Masks of a caption; the partner captions each", CaptionToMaskOptions, f"{_ROOM}:CaptionToMask",
    later={"learn": 0.0, "absent": 0.0},
)  # fmt: skip
