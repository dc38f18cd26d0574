"""Sa2VA (Yuan et al. 2025): captions of regions and masks of captions. Light half, imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Cli, Group
from motionkit.plugins import Component


class Sa2vaOptions(Group):
    """Where the policy comes from, and what of it is trained."""

    checkpoint: str = Field(
        min_length=1, description="Folder of the model, id on the Hugging Face hub, or a run or folder of sa2va-rl."
    )
    base: str = Field("", description="Folder of the model that a run was trained on, if it is no longer in place.")
    weights: Literal["student", "ema"] = Field(
        "student", description="Of a guide's checkpoint: pytorch_model.bin or ema_model.bin."
    )
    revision: str = Field("", description="Commit, branch or tag on the hub; the commit is kept in run.json.")
    trust_remote_code: Annotated[bool, Cli("--trust-remote-code")] = Field(
        False, description="Run the code that comes with the model; counts only where it is typed."
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Of the frozen weights; auto: bfloat16 on CUDA, else float32. What is trained is float32."
    )
    lora_rank: int = Field(
        128, ge=0, le=4096, description="Rank of the language model's adapters; 0 trains none of it."
    )
    lora_alpha: float = Field(
        256.0, gt=0, le=65_536, description="Adapters are scaled by alpha / rank; of rsLoRA give alpha * sqrt(rank)."
    )
    max_tiles: int = Field(12, ge=1, le=64, description="Most tiles of an image, beside its thumbnail.")
    max_words: int = Field(
        128, ge=2, le=4096, description="Longest caption in tokens, its end included; it is cut off there."
    )
    question: str = Field(
        "Can you provide me with a detailed description of the region in the picture marked by region1?",
        min_length=1,
        description="What the model is asked for a caption.",
    )
    rows: int = Field(8, ge=1, le=65_536, description="Samples that go through the language model at once.")
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass: less memory, a third more time."
    )
    seed: int = Field(0, ge=0, description="Draws the adapters.")

    def code(self) -> Mapping[str, str]:
        """Return the options that make code run; see `Group.code`."""
        return {"trust_remote_code": "it runs code from the model's folder."} if self.trust_remote_code else {}

    def memory(self, *, regions: int, group: int, device: str, shards: int = 1) -> list[str]:
        """See `motionkit_regions.policy.PlansMemory`; empty if config.json is not on this machine yet."""
        from motionkit_regions.sa2va.open import config_at_hand
        from motionkit_regions.sa2va.sizes import plan

        config = config_at_hand(self)
        half = self.dtype == "bfloat16" or (self.dtype == "auto" and device == "cuda")
        return [] if config is None else plan(*config, self, regions=regions, group=group, half=half, shards=shards)


component = Component(
    "Sa2VA, from a folder or the hub: published checkpoints, or its parts from transformers' own models",
    Sa2vaOptions,
    "motionkit_regions.sa2va.open:open_sa2va",
    exports={"hf": "motionkit_regions.sa2va.open:export_hf"},
    gives="regions",
)
