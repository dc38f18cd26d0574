"""Settings of `motionkit grpo`, with the choices of ``--algorithm auto`` and ``--preset``. Imports no torch.

`decide` takes the update rule that suits the options and the rewards. The defaults are for a CPU. `find_preset` gives
those that an algorithm's options have for a CUDA device (``gpu``), since a batch below a hundred samples leaves the
device waiting for the host; it imports torch only if there is a GPU's driver.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field

from motionkit import plugins
from motionkit.config import Chosen, Cli, Group, Layer, leaves, slot, slots, split_commas, with_later
from motionkit.documents import value_at
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.text_to_motion.evaluation.settings import NONE, OptionalEvaluator
from motionkit.text_to_motion.settings import LoraSettings, LoraTarget, PromptSettings, SamplerSettings
from motionkit.training.settings import Decay, OptimSettings, RunSettings, TrainerSettings

AUTO = "auto"
_REMOVED = {"rwr": "awm"}  # replacement: the same loss, with weights that add up to zero
_GRADIENT, _MIXED = "reward-gradient", "mixed"
_BLACK_BOX = "awm"  # of the algorithms without a gradient it learns most, see docs/algorithms
_COMMON = "grpo"  # preferred if several algorithms have the options
_GROUPS = ("objective", "rollout", "sampler")
"""Groups whose settings differ between algorithms; in the other groups only defaults do."""


def decide(name: str, keys: AbstractSet[str], chosen: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Resolve ``auto``; every other name stays.

    Only built-in algorithms that have all options that were set are considered: `reward-gradient` if every reward has
    a gradient, `mixed` if only some have, and `awm`, which needs none, if none has.

    Args:
        name: What the user chose.
        keys: Dotted keys that files, variables and the command line set.
        chosen: Names of the plugins in the other slots.

    Returns:
        The algorithm, and one line that tells why and how to choose another.
    """
    if name in _REMOVED and not any(entry.name == name for entry in plugins.available("algorithms")):
        raise MotionkitError(
            f"the algorithm {name} was removed.",
            why="it fitted the policy to its own samples and gained nothing.",
            fix=f"--algorithm {_REMOVED[name]} has the same loss, with weights that add up to zero.",
        )
    if name != AUTO:
        return name, ""
    rewards = chosen.get("reward", ())
    without = [reward for reward in rewards if not _has_gradient(reward)]
    wanted = _GRADIENT if not without else _MIXED if len(without) < len(rewards) else _BLACK_BOX
    # Only built-in ones: other packages are not imported unless they are chosen.
    names = {entry.name: _keys(entry.name) for entry in plugins.available("algorithms") if entry.builtin}
    special = {key for key in keys if 0 < sum(key in options for options in names.values()) < len(names)}
    able = [algorithm for algorithm, options in names.items() if special <= options]
    if not able:
        raise MotionkitError(
            f"no algorithm has all of {', '.join(sorted(special))}.", fix="choose one: --algorithm NAME."
        )
    if wanted not in able:
        algorithm = _COMMON if _COMMON in able else able[0]
        options = sorted(key for key in special if sum(key in keys for keys in names.values()) == 1)
        lacking = sorted(special - names[wanted])
        reason = f"only it has {', '.join(options)}" if options else f"{wanted} has no {', '.join(lacking)}"
        return algorithm, _line(algorithm, reason, len(names))
    reason = f"{', '.join(without)} has no gradient" if without else "every reward has a gradient"
    if wanted == _MIXED:
        reason += f", {', '.join(reward for reward in rewards if reward not in without)} has one"
    return wanted, _line(wanted, reason, len(names))


def _has_gradient(reward: str) -> bool:
    try:
        return plugins.get("rewards", reward, typed=True).gradient  # the slot refuses code from files already
    except MotionkitError:  # reported by the slot
        return True


def _keys(algorithm: str) -> set[str]:
    result = leaves(plugins.get("algorithms", algorithm).options)
    return {leaf.key for leaf in result if leaf.path[0] in _GROUPS}


def _line(algorithm: str, reason: str, count: int) -> str:
    others = f"{_COMMON} itself and {count - 2} others" if algorithm != _COMMON else f"{count - 1} others"
    return (
        f"grpo trains with the algorithm {algorithm}, because {reason}; {others}: --algorithm NAME "
        "(docs/algorithms/README.md)"
    )


def find_preset(given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Layer | None:
    """Return the values of ``gpu`` if it is chosen, or for ``auto`` on a CUDA device; see `Settings.preset_of`."""
    preset, device = (str(given.get(name, "auto")).strip().lower() for name in ("preset", "device"))
    if preset not in ("auto", "gpu"):
        return None
    result = _device(device)
    if result != "cuda" and preset == "gpu":
        raise MotionkitError(
            "--preset gpu needs a CUDA device.",
            why=f"the run would be on {result}." if result else f"--device {device} is not on this machine.",
            fix="--preset cpu, or --preset auto, which chooses by the device",
        )
    # Sizes for a GPU are a class attribute that an algorithm's options may bring; those of a policy may replace some.
    algorithm, policy = (
        {key: value for model in options.get(slot, ()) for key, value in getattr(model, "gpu", {}).items()}
        for slot in ("algorithm", "policy")
    )
    values = algorithm | {key: value for key, value in policy.items() if key in algorithm}
    note = "--preset cpu keeps the small sizes" if preset == "auto" else "sizes that were given win"
    return Layer.of("preset gpu", values, off=note) if result == "cuda" else None


def find_hold(options: Mapping[str, Sequence[type[BaseModel]]]) -> Layer | None:
    """Return the KL to the start if no reward reads the text; see `Settings.preset_of`."""
    # What options say of their plugins is a class attribute, which those of other packages may bring.
    rewards = options.get("reward", ())
    if not rewards or any(getattr(model, "reads_text", True) for model in rewards):
        return None
    values = {
        key: value for model in options.get("algorithm", ()) for key, value in getattr(model, "textless", {}).items()
    }
    note = "a motion that stands still may be their best one; --kl-coef 0 sets it free"
    return Layer.of("rewards without text", values, off=note) if values else None


def _device(name: str) -> str:
    """Return the type of a device; empty if it is not on this machine, which is reported when it is opened."""
    if name in ("cpu", "mps"):
        return name
    if name == "auto" and not _has_driver():  # avoids the import of torch
        return "cpu"
    from motionkit.contracts.device import resolve_device

    try:
        return resolve_device(name).type
    except MotionkitError:
        return ""


def _has_driver() -> bool:
    """Return whether files of an NVIDIA driver exist: on Linux, in WSL or on Windows."""
    windows = Path(os.environ.get("SYSTEMROOT", "C:/Windows")) / "System32" / "nvcuda.dll"
    marks = [windows] if os.name == "nt" else [Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg")]
    return any(mark.exists() for mark in marks)


class TrainPrompts(PromptSettings):
    """Which prompts the policy is trained on."""

    split: Literal["train", "val"] = Field("train", description="Split of the training prompts.")


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
    full_rate: ClassVar[float] = 1e-4

    schedule: Literal["constant", "cosine"] = Field("constant", description="Learning rate after the warm-up.")
    final: float = Field(0.05, ge=0.0, le=1.0, description="Last learning rate of cosine, as a share of the peak.")

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(
        0.0, ge=0.0, description="Peak learning rate; 0 picks 2e-3 for LoRA and 1e-4 for full fine-tuning."
    )
    betas: tuple[Decay, Decay] = Field((0.9, 0.99), description="Decay of the two AdamW moments.")

    @classmethod
    def of(cls, algorithm: BaseModel) -> GrpoOptimSettings:
        """Return the optimiser in the options of an algorithm, or the default one of those that bring none."""
        # The options are those of any algorithm, of any package.
        own = getattr(algorithm, "optim", None)
        return own if isinstance(own, GrpoOptimSettings) else cls()

    def peak(self, *, lora: bool) -> float:
        """Return the peak learning rate; of rate 0 the one that it picks, with low-rank adapters or without."""
        return self.learning_rate or (self.lora_rate if lora else self.full_rate)


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
    """Refuse to measure a run on the test split: settings would be chosen by it."""
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
    points: int | None = Field(
        None,
        ge=0,
        le=10_000,
        description="How often the run is measured on the way, on other prompts; 0 is never; default: once for every "
        "1,500 motions that it is trained on, at most 10 times.",
    )
    watch: int = Field(32, ge=2, le=100_000, description="Most prompts on the way, two samples each.")
    motions: int = Field(
        4,
        ge=0,
        le=12,
        description="Prompts whose motion is kept at the start and at every point on the way, for the page and "
        "trackers; 0 keeps none.",
    )
    all_steps: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Also measure with all steps of the ancestral sampler, one sample a prompt, and as generate does; "
        "auto: up to 100 steps.",
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
        description="Before training, score reference motions and samples, and print scale, ties, spread within groups "
        "and what reference motions score for each reward.",
    )


class AuditSettings(Group):
    """Calibration of the rewards before training."""

    enabled: bool = Field(
        True,
        description="Before training, change a few reference clips and say what the rewards do not see of it; "
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
        "auto", description="Sizes of batches that are not given; auto: gpu on a CUDA device, else cpu."
    )
    policy: Chosen = slot("policies", "mdm", gives="diffusion")
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",), reads="motion")
    judge: Chosen | None = slot(
        "rewards",
        None,
        description="Score that is measured and never trained on; default: the starter's own judge on starter data, "
        "else another TMR of a finished run on the same data.",
    )
    evaluator: OptionalEvaluator = OptionalEvaluator()
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
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a run with those that came later: an evaluator, and the supervised loss."""
        later: dict[str, dict[str, Any]] = {"evaluator": {"weights": NONE, "glove": None, "stats": None}}
        if "jerk" in (table.get("objective") or {}):  # of an algorithm that follows the reward's gradient
            later["objective"] = {"data": 0.0}
        if table.get("algorithm") == "reward-gradient":
            later["optim"] = {"lora_learning_rate": 3e-3}
        return with_later(table, later)

    @classmethod
    def preset_of(cls, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Layer | None:
        """Return the sizes for a GPU if there is one, and the KL of rewards without text; see `Settings.preset_of`."""
        found = [layer for layer in (find_preset(given, options), find_hold(options)) if layer is not None]
        values = {key: value_at(layer.table, *key.split(".")) for layer in found for key in layer.keys}
        names = ", ".join(layer.name for layer in found)
        return Layer.of(names, values, off="; ".join(layer.off for layer in found)) if found else None


component = Component(
    summary="Fine-tune a text-to-motion diffusion model against rewards (GRPO).",
    options=GrpoSettings,
    factory="motionkit.text_to_motion.grpo.train:GrpoTrainer",
    sections="motionkit.text_to_motion.evaluation.pages:SECTIONS",
    charts="motionkit.text_to_motion.evaluation.pages:CHARTS",
    findings="motionkit.text_to_motion.findings:FINDINGS",
    metrics="motionkit.text_to_motion.metrics:METRICS",
    models="motionkit.text_to_motion.models:MODELS",
    next="motionkit.text_to_motion.next:after_grpo",
    converted=dict.fromkeys(("humanml", "kit"), "motionkit.text_to_motion.next:after_conversion"),
    released="motionkit.text_to_motion.released:found",
)
