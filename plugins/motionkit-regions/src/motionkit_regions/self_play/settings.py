"""`motionkit sa2va-rl`: self-play of captions and masks. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Chosen, Cli, Group, slot, slots
from motionkit.plugins import Component
from motionkit.training.settings import CheckpointSettings, EpochRunSettings, OptimSettings, TrainerSettings


class Sa2vaRunSettings(EpochRunSettings):
    """Where the run goes and how long it lasts."""

    epochs: Annotated[int, Cli("--epochs", panel="Run")] = Field(
        0, ge=0, le=1_000_000, description="Passes over the training regions; 0: --num-steps counts."
    )
    num_steps: Annotated[int, Cli("--num-steps", panel="Run")] = Field(
        0, ge=0, description="Total training steps, including those before a resume; 0: 500, or what --epochs makes."
    )


_END = "Weight at the end of the run, on a line from the first; default: the same."


class LoopSettings(Group):
    """How much each loop counts; 0 leaves it out."""

    mask_to_caption: Annotated[float, Cli("--mask-to-caption-weight")] = Field(
        1.0, ge=0, le=1e6, description="Weight of loop 1: mask, caption, the partner's mask."
    )
    mask_to_caption_end: float | None = Field(None, ge=0, le=1e6, description=_END)
    caption_to_mask: Annotated[float, Cli("--caption-to-mask-weight")] = Field(
        1.0, ge=0, le=1e6, description="Weight of loop 2: caption, mask, the partner's caption."
    )
    caption_to_mask_end: float | None = Field(None, ge=0, le=1e6, description=_END)
    third: float = Field(1.0, ge=0, le=1e6, description="Weight of loop 3, if there is one.")
    balance: Literal["none", "gradient", "progress"] = Field(
        "none",
        description="Factor on each weight. gradient: the loops' gradients get one norm; progress: a loop whose reward "
        "rises counts more.",
    )
    conflict_every: int = Field(
        0, ge=0, description="Steps between reports of the cosine between the loops' gradients; 0: none."
    )
    supervised: float = Field(
        1.0, ge=0, le=1e6, description="Weight of the anchor: the data's captions and masks, learned as they are."
    )


class RolloutSettings(Group):
    """What is sampled before each update."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(8, ge=1, le=65_536, description="Regions of a step.")
    group_size: Annotated[int, Cli("--group-size")] = Field(
        8, ge=2, le=4096, description="Samples of each region in each loop."
    )
    temperature: float = Field(1.0, gt=0, le=10, description="Temperature of the captions.")
    temperature_end: float | None = Field(
        None, gt=0, le=10, description="Temperature at the end of the run, on a line from the first; default: the same."
    )


class CurriculumSettings(Group):
    """Which regions come first."""

    by: Literal["none", "area", "ambiguity"] = Field(
        "none", description="area: large regions first; ambiguity: first those whose caption the policy draws well."
    )
    until: float = Field(0.5, gt=0, le=1, description="Share of the run after which regions come as they are.")
    pool: int = Field(4, ge=2, le=64, description="Regions that are ranked, for each that is taken.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.by != "none" else dict.fromkeys(("until", "pool"), "there is no curriculum")


class Sa2vaObjectiveSettings(Group):
    """GRPO (Shao et al. 2024) on words and on segmentation prompts."""

    clip_range: Annotated[float, Cli("--clip-range")] = Field(
        0.2, gt=0, lt=1, description="How far the ratio may fall."
    )
    clip_high: float = Field(0.28, gt=0, le=10, description="How far the ratio may rise.")
    kl_coef: Annotated[float, Cli("--kl-coef")] = Field(0.2, ge=0, description="Weight of the KL to the start.")
    inner_epochs: int = Field(1, ge=1, le=100, description="Optimiser steps for each rollout.")
    normalize: Literal["token", "sequence", "length"] = Field(
        "token",
        description="Words are averaged over the update (DAPO), over their caption first, or over the longest length "
        "(Dr. GRPO).",
    )
    entropy: float = Field(0.0, ge=0, description="Weight of the entropy bonus of the words.")
    std_floor: float = Field(
        0.02, ge=0, description="Standard deviation that is added to that of a group: noise is not blown up."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        later = "it acts from the second of objective.inner_epochs on, which is 1"
        return dict.fromkeys(("clip_range", "clip_high"), later) if self.inner_epochs == 1 else {}


class Sa2vaOptimSettings(OptimSettings):
    """AdamW; the learning rate falls on a cosine."""

    final: float = Field(0.1, ge=0, le=1, description="Learning rate at the end, as a share of the peak; 1: constant.")


class PartnerSettings(Group):
    """Who closes the loops."""

    kind: Literal["ema", "student", "frozen"] = Field(
        "ema", description="ema: an average of the policy; student: the policy itself; frozen: as it starts."
    )
    decay: Annotated[float, Cli("--ema-decay")] = Field(0.95, ge=0, lt=1, description="Decay of the average.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.kind == "ema" else {"decay": f"the partner is {self.kind}"}


class RegionEvalSettings(Group):
    """What is measured before and after."""

    regions: int = Field(200, ge=2, le=1_000_000, description="Held-out regions.")
    every: int = Field(50, ge=0, description="Steps between measurements that choose the best policy; 0: none.")


class Sa2vaControlSettings(Group):
    """Negative control."""

    shuffle: bool = Field(False, description="Nothing but the anchor should be learned: shuffle the advantages.")


class Sa2vaRlSettings(TrainerSettings):
    """Self-play of captions and masks with GRPO."""

    run: Sa2vaRunSettings = Sa2vaRunSettings()
    checkpoint: CheckpointSettings = CheckpointSettings(every=50)
    dataset: Chosen = slot("datasets", "shapes", gives="regions", description="Where regions come from.")
    policy: Chosen = slot("policies", "tiny-sa2va", gives="regions", description="Which policy to train.")
    loop1_reward: tuple[Chosen, ...] = slots(
        "rewards",
        ("iou", "contrast", "brevity"),
        reads=("mask", "text"),
        description="What loop 1 is paid for, repeatable.",
    )
    loop2_reward: tuple[Chosen, ...] = slots(
        "rewards", ("meteor", "iou-truth"), reads=("mask", "text"), description="What loop 2 is paid for, repeatable."
    )
    loop1: Chosen = slot("loops", "mask-to-caption", description="Loop 1.")
    loop2: Chosen = slot("loops", "caption-to-mask", description="Loop 2.")
    loop3: Chosen | None = slot("loops", None, description="A third loop, which needs --loop3-reward.")
    loop3_reward: tuple[Chosen, ...] = slots(
        "rewards", (), reads=("mask", "text"), description="What loop 3 is paid for, repeatable."
    )
    loops: LoopSettings = LoopSettings()
    curriculum: CurriculumSettings = CurriculumSettings()
    rollout: RolloutSettings = RolloutSettings()
    objective: Sa2vaObjectiveSettings = Sa2vaObjectiveSettings()
    partner: PartnerSettings = PartnerSettings()
    optim: Sa2vaOptimSettings = Sa2vaOptimSettings(learning_rate=5e-4, warmup_steps=10)
    heldout: RegionEvalSettings = RegionEvalSettings()
    control: Sa2vaControlSettings = Sa2vaControlSettings()
    shard: Annotated[Literal["none", "full"], Cli("--shard", panel="Run")] = Field(
        "none",
        description="Of several processes: none: each holds the whole policy; full: each holds its share of the layers "
        "and of what is trained of them (FSDP).",
    )
    check: Annotated[bool, Cli("--check")] = Field(
        False, description="Check policy, data and rewards on 8 regions, and train nothing; 1 where a check fails."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        idle = {**super().idle(), "precision": "the policy says what it computes in (--policy.dtype of sa2va)"}
        return idle if self.loop3 is not None else {**idle, "loops.third": "there is no --loop3"}

    @model_validator(mode="after")
    def _third_loop(self) -> Self:
        if self.loop3 is None and self.loop3_reward:
            raise ValueError("loop3_reward has no effect: there is no --loop3")
        return self


component = Component(
    summary="Train captions and masks on each other: mask to caption to mask, and caption to mask to caption.",
    options=Sa2vaRlSettings,
    factory="motionkit_regions.self_play.train:Sa2vaRl",
    metrics="motionkit_regions.metrics:METRICS",
    sections="motionkit_regions.pages:SECTIONS",
    charts="motionkit_regions.pages:CHARTS",
    models="motionkit_regions.models:MODELS",
    next="motionkit_regions.next:after_self_play",
)
