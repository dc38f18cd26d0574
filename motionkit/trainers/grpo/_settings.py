"""Settings of `motionkit grpo`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field

from motionkit.config import (
    Chosen,
    Cli,
    Decay,
    Group,
    LoraSettings,
    LoraTarget,
    OptimSettings,
    Preset,
    PromptSettings,
    RunSettings,
    SamplerSettings,
    TrainerSettings,
    slot,
    slots,
    split_commas,
)
from motionkit.trainers.grpo._auto import decide
from motionkit.trainers.grpo._preset import find_preset


class TrainPrompts(PromptSettings):
    """Which prompts the policy is trained on."""

    split: Literal["train", "val"] = Field("train", description="Split the training prompts come from.")


class RolloutSettings(Group):
    """What is sampled before each update; an algorithm adds its own."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(8, ge=1, le=16384, description="Prompts per update.")
    by_length: bool = Field(False, description="Put prompts of similar length into one update, which saves padding.")


class ObjectiveSettings(Group):
    """What is maximised; an algorithm adds its own."""

    sync_every: int = Field(
        0,
        ge=0,
        description="Updates after which the reference becomes a copy of the policy, again and again; 0: never.",
    )


class GrpoOptimSettings(OptimSettings):
    """AdamW; the gradient of a batch is mostly noise, so its second moment is averaged over fewer steps than usual."""

    lora_rate: ClassVar[float] = 2e-3
    """What learning rate 0 picks for LoRA."""

    schedule: Literal["constant", "cosine"] = Field("constant", description="Learning rate after the warm-up.")
    final: float = Field(0.05, ge=0.0, le=1.0, description="Last learning rate of cosine, as a share of the peak.")

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(
        0.0, ge=0.0, description="Peak learning rate; 0 picks 2e-3 for LoRA and 1e-4 for full fine-tuning."
    )
    betas: tuple[Decay, Decay] = Field((0.9, 0.99), description="Decay of the two AdamW moments.")


class GrpoLoraSettings(LoraSettings):
    """Low-rank adapters: few directions, so that less of the gradient's noise reaches the policy."""

    enabled: Annotated[bool, Cli("--lora")] = Field(True, description="Train low-rank adapters, not all weights.")
    r: Annotated[int, Cli("--lora.r")] = Field(8, ge=1, le=4096, description="Rank of the adapters.")
    alpha: Annotated[float, Cli("--lora.alpha")] = Field(
        16.0, gt=0, description="Scaling factor: the update is alpha / r times BA."
    )
    targets: Annotated[tuple[LoraTarget, ...], BeforeValidator(split_commas), Cli("--lora.targets")] = Field(
        ("attn", "text"), min_length=1, description="Layers with adapters, comma-separated: attn, ffn, text."
    )


class EmaSettings(Group):
    """Moving average of the trained weights."""

    decay: float = Field(0.97, ge=0.0, lt=1.0, description="0 is off; else the average is measured and exported.")


def refuse_test(split: object) -> object:
    """Refuse the test split as what a run is measured on: settings would be chosen by it."""
    if split == "test":
        raise ValueError(
            "a run is measured on val; motionkit eval text-to-motion RUN --split test opens the test split"
        )
    return split


class HeldOutSettings(Group):
    """What is measured before and after, with the same noise."""

    prompts: int = Field(64, ge=0, le=100_000, description="Held-out prompts; 0 skips the measurement.")
    samples: int = Field(4, ge=1, le=4096, description="Samples per prompt.")
    split: Annotated[Literal["val"], BeforeValidator(refuse_test)] = Field(
        "val", description="Split of the held-out prompts; `motionkit eval --split test` alone opens the test split."
    )
    allow_shared: bool = Field(
        False, description="Measure although training prompts use the same motions; the figures are then optimistic."
    )
    judge: bool = Field(
        True, description="Measure with a judge: the one chosen, else the starter's own on starter data."
    )
    points: int = Field(
        10, ge=0, le=10_000, description="How often the run is measured on the way, on other prompts; 0 is never."
    )
    watch: int = Field(32, ge=2, le=100_000, description="Most prompts on the way, two samples each.")
    all_steps: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Also measure with all steps of the ancestral sampler, one sample a prompt; auto: up to 100 steps.",
    )
    stop_on_gap: Annotated[bool, Cli("--stop-on-gap")] = Field(
        False, description="End the run when the judge gains less than 0.6 of the reward's gain at two points in a row."
    )


class ControlSettings(Group):
    """Negative controls, for experiments only."""

    shuffle: bool = Field(
        False,
        description="Negative control, nothing should be learned: shuffle the advantages of a group, or draw the sign "
        "of each reward; the algorithm's own physics terms are off.",
    )


class RewardMixSettings(Group):
    """How several rewards become one."""

    normalize: Literal["off", "group"] = Field(
        "off",
        description="group: standardise each reward within its group before it is weighted (GDPO), so that weights "
        "mean the same whatever the scales; for algorithms that compare the samples of a group.",
    )
    calibrate: bool = Field(
        False,
        description="Before training, score real motions and samples, and print scale, ties, spread within groups and "
        "what real motions score for each reward.",
    )


class AuditSettings(Group):
    """What is asked of the rewards before training."""

    enabled: bool = Field(
        True,
        description="Before training, change a few real clips and say what the rewards do not see of it; "
        "`motionkit eval sensitivity` is the whole of it.",
    )


class GrpoSettings(TrainerSettings):
    """Fine-tune a motion diffusion model with rewards."""

    run: RunSettings = RunSettings(num_steps=160)
    algorithm: Chosen = slot(
        "algorithms",
        "auto",
        description="Update rule; auto takes the one that suits the rewards and the options.",
        spread=True,
        decide=decide,
    )
    preset: Annotated[Literal["auto", "cpu", "gpu"], Cli("--preset", panel="Run")] = Field(
        "auto", description="Sizes of batches, where none are given; auto: gpu on a CUDA device, else cpu."
    )
    policy: Chosen = slot("policies", "mdm", gives="diffusion")
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",), reads="motion")
    judge: Chosen | None = slot(
        "rewards", None, description="Score that is measured and never trained on; default: the starter's own judge."
    )
    reward_mix: RewardMixSettings = RewardMixSettings()
    audit: AuditSettings = AuditSettings()
    prompts: TrainPrompts = TrainPrompts()
    rollout: RolloutSettings = RolloutSettings()
    sampler: SamplerSettings = SamplerSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    optim: GrpoOptimSettings = GrpoOptimSettings()
    lora: GrpoLoraSettings = GrpoLoraSettings()
    ema: EmaSettings = EmaSettings()
    heldout: HeldOutSettings = HeldOutSettings()
    control: ControlSettings = ControlSettings()

    @classmethod
    def preset_of(cls, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Preset | None:
        """Return the sizes for a GPU where there is one; see `Settings.preset_of`."""
        return find_preset(given, options)
