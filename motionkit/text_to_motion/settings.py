"""Settings that several commands of text to motion share. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from motionkit.config import Cli, Group, split_commas

LoraTarget = Literal["attn", "ffn", "text"]


class LoraSettings(Group):
    """Low-rank adapters in place of full fine-tuning."""

    enabled: Annotated[bool, Cli("--lora")] = Field(False, description="Train low-rank adapters, not all weights.")
    r: Annotated[int, Cli("--lora.r")] = Field(16, ge=1, le=4096, description="Rank of the adapters.")
    alpha: Annotated[float, Cli("--lora.alpha")] = Field(
        32.0, gt=0, description="Scaling factor: the update is alpha / r times BA."
    )
    dropout: Annotated[float, Cli("--lora.dropout")] = Field(
        0.0, ge=0, lt=1, description="Dropout before the adapters."
    )
    targets: Annotated[tuple[LoraTarget, ...], BeforeValidator(split_commas), Cli("--lora.targets")] = Field(
        ("attn", "ffn"), min_length=1, description="Layers with adapters, comma-separated: attn, ffn, text."
    )


class PromptSettings(Group):
    """Which prompts a policy gets."""

    k_segments: Annotated[int, Cli("--k-segments")] = Field(
        0, ge=0, le=1000, description="Segments per prompt; 0 takes the dataset's own (starter: two and three mixed)."
    )


class SamplerSettings(Group):
    """How a policy is sampled; a command or an algorithm adds its own."""

    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        0, ge=0, le=10_000, description="Sampling steps: a subset of the trained timesteps; 0 takes all of them."
    )
    spacing: Literal["early", "even"] = Field(
        "even", description="Timesteps visited: early is densest at the noisy end, where a motion is decided."
    )
    guidance_scale: Annotated[float, Cli("--guidance-scale")] = Field(
        2.5, ge=0, description="Classifier-free guidance scale; 1 is off."
    )
