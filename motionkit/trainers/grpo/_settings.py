"""Settings of `motionkit grpo`. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from motionkit.config import (
    Chosen,
    Cli,
    Decay,
    Group,
    LoraSettings,
    LoraTarget,
    OptimSettings,
    RunSettings,
    TrainerSettings,
    slot,
    slots,
    split_commas,
)

_SAMPLES = 2**17
"""Samples per update; each takes up to 200 KB."""


class PromptSettings(Group):
    """Which prompts the policy is asked."""

    k_segments: Annotated[int, Cli("--k-segments")] = Field(
        0, ge=0, le=1000, description="Segments per prompt; 0 takes the dataset's own (starter: two and three mixed)."
    )
    split: Literal["train", "val"] = Field("train", description="Split the training prompts come from.")


class RolloutSettings(Group):
    """What is sampled before each update."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(8, ge=1, le=16384, description="Prompts per update.")
    group_size: Annotated[int, Cli("--group-size")] = Field(8, ge=2, le=4096, description="Samples per prompt (G).")
    antithetic: bool = Field(True, description="Samples 2i and 2i+1 of a group use opposite noise in the SDE window.")
    shared_noise: bool = Field(
        True, description="All samples of a group start from the same x_T, so that only trained steps tell them apart."
    )
    micro_batch: int = Field(64, ge=1, description="(sample, timestep) pairs per forward and backward pass.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.prompts * self.group_size > _SAMPLES:
            raise ValueError(f"{self.prompts} prompts x {self.group_size} samples are more than {_SAMPLES} per update")
        return self


class SamplerSettings(Group):
    """How the policy is sampled while it trains and while it is measured."""

    kind: Literal["ddim", "ddpm"] = Field("ddim", description="Reverse process of the rollouts.")
    train_timesteps: Annotated[int, Cli("--train-timesteps")] = Field(
        5, ge=1, le=10_000, description="Sampling steps of a rollout: a subset of the trained timesteps."
    )
    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        5, ge=1, le=10_000, description="Sampling steps of the held-out measurement (deterministic DDIM)."
    )
    spacing: Literal["early", "even"] = Field(
        "early",
        description="Timesteps visited: early is densest at the noisy end, where a motion is decided.",
    )
    eta: float = Field(1.0, ge=0.0, le=1.0, description="DDIM noise inside the window; outside it is 0.")
    window_start: int = Field(0, ge=0, description="First rollout step that is stochastic and trained.")
    window_size: int = Field(2, ge=0, description="How many rollout steps are stochastic and trained.")
    guidance_scale: Annotated[float, Cli("--guidance-scale")] = Field(
        1.0, ge=0.0, description="Classifier-free guidance of rollouts, training and measurement; 1 is off."
    )
    noise_scale: Annotated[float, Cli("--noise-scale")] = Field(
        0.7, gt=0.0, description="SDE noise of flow-grpo; has no effect in grpo."
    )


class ObjectiveSettings(Group):
    """The surrogate that is maximised."""

    advantage: Literal["leave-one-out", "global-std", "group-std"] = Field(
        "leave-one-out", description="How rewards become advantages."
    )
    std_floor: float = Field(0.02, ge=0.0, description="Smallest standard deviation an advantage is divided by.")
    advantage_clip: float = Field(5.0, gt=0.0, description="Advantages are clipped to this magnitude.")
    credit: Annotated[Literal["sample", "segment"], Cli("--credit")] = Field(
        "segment", description="segment: each segment's advantage weighs its own frames; sample: one for all frames."
    )
    credit_share: float = Field(
        0.0, ge=0.0, le=1.0, description="Share of the whole-sample advantage mixed into each segment's."
    )
    ratio_norm: Literal["snr", "guard", "none"] = Field(
        "snr", description="Per-step normalisation of the log-ratio, which x0-prediction needs."
    )
    clip_range: Annotated[float, Cli("--clip-range")] = Field(
        0.2, gt=0.0, description="Clip range of the normalised ratio; acts from the second inner epoch on."
    )
    kl_coef: Annotated[float, Cli("--kl-coef")] = Field(
        0.0, ge=0.0, description="Weight of the closed-form KL to the reference, per dimension."
    )
    anchor: float = Field(
        20.0,
        ge=0.0,
        description="Weight of what keeps predictions as smooth as the reference's; 0 is off.",
    )
    inner_epochs: Annotated[int, Cli("--inner-epochs")] = Field(
        1, ge=1, description="Optimiser passes over each rollout."
    )
    kl_stop: float = Field(
        0.0,
        ge=0.0,
        description="Leave the inner epochs when the KL to the rollout policy passes this (nats per dim); 0 = never.",
    )


class GrpoOptimSettings(OptimSettings):
    """AdamW; the gradient of a batch is mostly noise, so its second moment is averaged over fewer steps than usual."""

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(
        0.0, ge=0.0, description="Peak learning rate; 0 picks 2e-3 for LoRA and 1e-4 for full fine-tuning."
    )
    betas: tuple[Decay, Decay] = Field((0.9, 0.99), description="Decay of the two AdamW moments.")


class GrpoLoraSettings(LoraSettings):
    """Low-rank adapters: few directions, so that less of the gradient's noise reaches the policy."""

    enabled: Annotated[bool, Cli("--lora")] = Field(True, description="Train low-rank adapters, not all weights.")
    r: Annotated[int, Cli("--lora.r")] = Field(8, ge=1, le=4096, description="Rank of the adapters.")
    alpha: Annotated[float, Cli("--lora.alpha")] = Field(
        16.0, gt=0, description="Scale: updates are alpha / r times BA."
    )
    targets: Annotated[tuple[LoraTarget, ...], BeforeValidator(split_commas), Cli("--lora.targets")] = Field(
        ("attn", "text"), min_length=1, description="Layers with adapters, comma-separated: attn, ffn, text."
    )


class EmaSettings(Group):
    """Moving average of the trained weights."""

    decay: float = Field(0.97, ge=0.0, lt=1.0, description="0 is off; else the average is measured and exported.")


class HeldOutSettings(Group):
    """What is measured before and after, with the same noise."""

    prompts: int = Field(64, ge=0, le=100_000, description="Held-out prompts; 0 skips the measurement.")
    samples: int = Field(4, ge=1, le=4096, description="Samples per prompt.")
    split: Literal["val", "test"] = Field("val", description="Split of the held-out prompts.")
    allow_shared: bool = Field(
        False, description="Measure although training prompts come from the same motions: no held-out figures then."
    )
    judge: str = Field("auto", description="A second TMR that is never a reward: auto, none, or a folder.")
    every: int = Field(0, ge=0, description="Also measure every N updates; 0 only before and after.")


class ControlSettings(Group):
    """Negative controls, for experiments only."""

    shuffle_advantages: bool = Field(False, description="Deal the advantages out at random: a run that must not learn.")


class GrpoSettings(TrainerSettings):
    """Fine-tune a motion diffusion model with group relative policy optimisation."""

    run: RunSettings = RunSettings(num_steps=160)
    algorithm: Annotated[Literal["grpo"], Cli("--algorithm")] = Field("grpo", description="Update rule.")
    policy: Chosen = slot("policies", "mdm", gives="diffusion")
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",), reads="motion")
    prompts: PromptSettings = PromptSettings()
    rollout: RolloutSettings = RolloutSettings()
    sampler: SamplerSettings = SamplerSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    optim: GrpoOptimSettings = GrpoOptimSettings()
    lora: GrpoLoraSettings = GrpoLoraSettings()
    ema: EmaSettings = EmaSettings()
    heldout: HeldOutSettings = HeldOutSettings()
    control: ControlSettings = ControlSettings()
