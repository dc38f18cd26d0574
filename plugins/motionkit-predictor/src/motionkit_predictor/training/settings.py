"""`motionkit train-mpl`: staged training of a motion predictor. Light half, imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from motionkit.config import Cli, Foreign, Group, Layer, Place, split_commas, with_later
from motionkit.plugins import Component
from motionkit.training.settings import EpochRunSettings, OptimSettings, TrainerSettings
from motionkit_predictor.data.settings import WindowSettings
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.training.guide_config import is_refused, translate, translate_sets
from motionkit_predictor.training.stages import Stage, refuse_gaps, refuse_unknown_losses

Size = Literal["small", "medium", "large"]


@dataclass(frozen=True)
class SizeRow:
    """What the guide recommends for data of one size."""

    frames: float  # frames of data below which it is meant
    stages: tuple[int, int]  # fewest and most stages
    values: Mapping[str, float]  # settings, by dotted key


def _row(frames: float, stages: tuple[int, int], *values: float) -> SizeRow:
    keys = ("optim.learning_rate", "train.batch_size", "train.seq_len", "model.dropout", "optim.weight_decay")
    return SizeRow(frames, stages, dict(zip(keys, values, strict=True)))


SIZES: Mapping[Size, SizeRow] = {
    "small": _row(1_000, (2, 3), 1e-4, 4, 40, 0.3, 1e-4),
    "medium": _row(10_001, (3, 4), 3e-4, 8, 60, 0.1, 1e-5),
    "large": _row(float("inf"), (5, 1_000), 5e-4, 16, 120, 0.05, 0.0),
}
"""The guide's table, section on tuning: below 1000 frames, to 10000, and above."""


def size_of(frames: int) -> Size:
    """Return the size of data with so many frames."""
    return next(name for name, row in SIZES.items() if frames < row.frames)


def find_preset(value: Any) -> Layer | None:
    """Return the values of a preset; None if there is none of that name."""
    name = str(value).strip().lower() if value is not None else ""
    if name not in get_args(Size):
        return None
    values = SIZES[name].values  # type: ignore[index]
    known = min(25, int(values["train.seq_len"]) // 2)
    return Layer.of(f"preset {name}", {**values, "train.known": known}, off="the guide's sizes; what was given wins")


Weight = Annotated[float, Field(ge=0, le=1e6)]

GROUPS: Mapping[str, str] = {
    **dict.fromkeys(
        ("rot_geo", "rot_local", "rot_root", "rot_delta", "rot_ortho", "fk_pos", "root", "place", "contacts"), "core"
    ),
    **dict.fromkeys(("attn_reg", "rot_delta_root", "rot_log", "limb_geo", "skate", "jerk"), "aux"),
    **dict.fromkeys(("latent_consistency", "freerun"), "long"),
}
"""The group of each loss: core decides how good a motion is, aux helps, long is for long free runs."""


class TeacherSettings(Group):
    """Teacher forcing: the share of frames that are predicted from the true frame before, not from the predicted."""

    mode: Annotated[Literal["epoch_linear", "step_linear", "constant", "inverse_sigmoid"], Cli("--tf-mode")] = Field(
        "epoch_linear",
        description="How the share goes down: by epoch, by step, not at all, or as k / (k + exp(t / k)).",
    )
    start_epoch: int = Field(1, ge=1, description="Last epoch with the full share.")
    end_epoch: Annotated[int, Cli("--tf-end-epoch")] = Field(
        0, ge=0, description="First epoch with the lowest share; 0: 0.65 of the epochs. It wins over start_epoch."
    )
    max: float = Field(1.0, ge=0, le=1, description="Share at first.")
    min: float = Field(0.0, ge=0, le=1, description="Share at the end.")
    weight: float = Field(
        1.0, ge=0, le=1e6, description="Weight of the losses with teacher forcing; 0: free runs only."
    )
    frames: int = Field(8, ge=1, description="Frames of a window that they are taken over.")

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        if self.end_epoch and self.end_epoch < self.start_epoch:
            raise ValueError(f"end_epoch {self.end_epoch} is before start_epoch {self.start_epoch}")
        return self


class FreeRunSettings(Group):
    """The loss of a free run: the model reads its own predictions, and gradients flow back through all of them."""

    weight: Annotated[float, Cli("--freerun-weight")] = Field(1.0, ge=0, le=1e6, description="Weight of the loss.")
    horizon: Annotated[int, Cli("--freerun-horizon")] = Field(15, ge=1, le=4096, description="Frames of a free run.")
    first_horizon: int = Field(1, ge=1, description="Frames of a free run at first.")
    fade: float = Field(0.5, ge=0, le=4, description="Frame t of a free run weighs t ** -fade.")
    ramp_epochs: int = Field(0, ge=0, description="Epochs in which weight and horizon rise; 0: 0.6 of the epochs.")
    first_weight: float = Field(1.0, ge=0, le=1, description="Weight at first, as a share of the full weight.")


class LossSettings(Group):
    """Weights of the losses; docs/predictor.md defines them. Free runs and teacher forcing share them."""

    rot_geo: Weight = Field(0.0, description="Core: angle of each joint's rotation, the root's included, radians.")
    rot_local: Weight = Field(1.0, description="Core: angle of each joint but the root, radians.")
    rot_root: Weight = Field(0.1, description="Core: angle of the root relative to the heading, radians.")
    rot_delta: Weight = Field(0.0, description="Core: angle between predicted and true turn per frame, radians.")
    rot_ortho: Weight = Field(0.001, description="Core: how far the network's 6D numbers are from orthonormal.")
    fk_pos: Weight = Field(0.0, description="Core: joint positions with the root unturned, smooth L1, metres.")
    root: Weight = Field(0.02, description="Core: steps and height of the root, in their own deviations, L1.")
    place: Weight = Field(0.2, description="Core: where the root is and faces, metres and half a metre per radian.")
    contacts: Weight = Field(0.02, description="Core: foot contacts, L1.")
    attn_reg: Weight = Field(0.0, description="Aux: attention to frames far back.")
    rot_delta_root: Weight = Field(0.0, description="Aux: angle of the root's turn per frame, radians.")
    rot_log: Weight = Field(0.0, description="Aux: rotation vector of the turn per frame, smooth L1, radians.")
    limb_geo: Weight = Field(0.0, description="Aux: the worst limb joints beyond limb_margin, degrees.")
    latent_consistency: Weight = Field(0.0, description="Long: hidden state against the encoder's soft period.")
    skate: Weight = Field(0.0, description="Aux, off by default: sliding of feet that stand, m/s.")
    jerk: Weight = Field(0.0, description="Aux, off by default: log of predicted over true jerk.")
    limb_margin: float = Field(5.0, ge=0, description="Degrees that limb_geo forgives.")
    limb_topk: int = Field(16, ge=1, description="Worst values per window that limb_geo takes.")
    latent_cosine: bool = Field(False, description="Compare the soft periods by cosine instead of L1.")


class AdaptiveSettings(Group):
    """Weights of some losses that are found while training."""

    method: Annotated[Literal["none", "gradnorm", "uncertainty", "dwa"], Cli("--adaptive-loss")] = Field(
        "none", description="gradnorm (Chen 2018), uncertainty (Kendall 2018), dwa (Liu 2019) or none."
    )
    terms: Annotated[tuple[str, ...], BeforeValidator(split_commas), Cli("--adaptive-terms")] = Field(
        (), description="Losses whose weights are found, comma-separated; default: all with a weight above 0."
    )
    alpha: Annotated[float, Cli("--adaptive-alpha")] = Field(1.5, ge=0, description="GradNorm's restoring force.")
    temperature: Annotated[float, Cli("--adaptive-temperature")] = Field(2.0, gt=0, description="Temperature of DWA.")
    learning_rate: float = Field(0.025, gt=0, description="Learning rate of the weights of gradnorm and uncertainty.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        if self.method == "none":
            return dict.fromkeys(("terms", "alpha", "temperature", "learning_rate"), "--adaptive-loss is none")
        idle = {} if self.method == "gradnorm" else {"alpha": "only gradnorm has it"}
        if self.method != "dwa":
            idle["temperature"] = "only dwa has it"
        else:
            idle["learning_rate"] = "dwa learns nothing"
        return idle


class AugmentationSettings(Group):
    """Changes of the training windows."""

    mirror: float = Field(0.5, ge=0, le=1, description="Share of windows with left and right swapped.")
    noise_std: float = Field(0.0, ge=0, description="Std of noise on what the network reads, in deviations.")
    speed_scale_range: tuple[float, float] = Field(
        (0.75, 1.2), description="Slowest and fastest speed that windows conditioned on a path are resampled to."
    )
    bend: float = Field(0.3, ge=0, le=10, description="Std in radians per metre of curves that paths are bent along.")
    yaw: float = Field(0.0, ge=0, le=180, description="Std in degrees of noise on the heading.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        low, high = self.speed_scale_range
        if not 0.25 <= low <= high <= 4.0:
            raise ValueError(f"speed_scale_range {low:g}, {high:g} must rise and lie in 0.25 to 4")
        return self


class MplRunSettings(EpochRunSettings):
    """Where the run goes and how long it lasts."""

    epochs: Annotated[int, Cli("--epochs", panel="Run")] = Field(
        0, ge=0, le=1_000_000,
        description="Passes over the training windows; 0: those of the stages, else about 400 updates, 2 or more.",
    )  # fmt: skip


UPDATES, FEWEST_EPOCHS = 400, 2
"""Updates that are made by default, and the fewest epochs."""


class TrainMplSettings(TrainerSettings):
    """Settings of `motionkit train-mpl`."""

    run: MplRunSettings = MplRunSettings()
    data: Annotated[tuple[str, ...], Cli("--data"), Place(("starter",))] = Field(
        ("starter",), min_length=1, description="Folder or file of clips with rotations, repeatable; or starter."
    )
    fps: Annotated[float, Cli("--fps")] = Field(
        30.0, ge=0, le=1000, description="Frames per second of the model; 0: the clips' own."
    )
    retarget: Annotated[str, Cli("--retarget")] = Field(
        "first",
        description="Which of --data has the skeleton that clips of other skeletons are brought to; first: the first "
        "one.",
    )
    encoder: Annotated[str, Cli("--encoder")] = Field(
        "auto", description="Run or folder of pretrain mpl-encoder; auto: the newest finished run, if it fits; none."
    )
    init: Annotated[Path | None, Cli("--init")] = Field(
        None, description="Run, checkpoint or file whose weights are taken where they fit."
    )
    bundle: Path | None = Field(
        None, description="The guide's norm_template.json: compared with the clips; its scale of turns is taken."
    )
    preset: Annotated[Size | None, Cli("--preset")] = Field(
        None, description="The guide's sizes: small below 1000 frames, medium to 10000, large above."
    )
    model: PredictorSettings = PredictorSettings()
    train: WindowSettings = WindowSettings()
    teacher: TeacherSettings = TeacherSettings()
    freerun: FreeRunSettings = FreeRunSettings()
    stages: tuple[Stage, ...] = Field((), description="Stages of training: epochs with values of their own.")
    loss: LossSettings = LossSettings()
    adaptive: AdaptiveSettings = AdaptiveSettings()
    augmentation: AugmentationSettings = AugmentationSettings()
    optim: OptimSettings = OptimSettings(learning_rate=1e-3, weight_decay=0.01, betas=(0.9, 0.99), warmup_steps=30)

    def epochs(self, per_epoch: int) -> int:
        """Return the number of epochs, given the updates in one."""
        if self.run.epochs:
            return self.run.epochs
        return self.stages[-1].range[1] if self.stages else max(FEWEST_EPOCHS, UPDATES // per_epoch)

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        idle = {**super().idle(), "precision": "the predictor is trained in float32"}
        if not self.weighs("limb_geo"):
            idle |= dict.fromkeys(("loss.limb_margin", "loss.limb_topk"), "the weight of limb_geo is 0")
        if self.data == ("starter",) and self.retarget:  # recorded runs have an empty one
            idle["retarget"] = "--data is starter"
        if self.encoder == "none":
            idle |= dict.fromkeys(("loss.latent_consistency", "loss.latent_cosine"), "--encoder is none")
        elif not self.weighs("latent_consistency"):
            idle["loss.latent_cosine"] = "the weight of latent_consistency is 0"
        if self.model.command != "both":
            idle["train.path_share"] = f"--command is {self.model.command}"
        if not self.conditioned:
            paths = ("train.path_off", "augmentation.bend", "augmentation.speed_scale_range")
            idle |= dict.fromkeys(paths, "no window is conditioned on its path")
        return idle

    @property
    def conditioned(self) -> float:
        """Share of windows that are conditioned on their path."""
        return {"none": 0.0, "path": 1.0, "both": self.train.path_share}[self.model.command]

    def weighs(self, loss: str) -> bool:
        """Whether a loss has a weight above 0 at some time."""
        staged = [
            table.get(f"w_{loss}", 0.0)
            for stage in self.stages
            for table in (stage.trainer, *stage.loss_groups.values())
        ]
        return max(float(getattr(self.loss, loss)), *staged, 0.0) > 0

    @field_validator("stages")
    @classmethod
    def _stages_follow(cls, stages: tuple[Stage, ...], others: ValidationInfo) -> tuple[Stage, ...]:
        if (run := others.data.get("run")) is not None:
            refuse_gaps(stages, run.epochs or (stages[-1].range[1] if stages else 0))
        refuse_unknown_losses(stages, [name for name in GROUPS if name != "freerun"])
        return stages

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a run's settings as it had them; see `Settings.recorded`.

        Older runs had no paths of other speeds and curves, and refused several skeletons.
        """
        none = {"loss": {"place": 0.0}, "augmentation": {"bend": 0.0}, "train": {"path_off": 0.0}}
        return {"retarget": "", **with_later(table, none)}

    @classmethod
    def preset_of(cls, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Layer | None:
        """Return the guide's size that is asked for; see `Settings.preset_of`."""
        return find_preset(given.get("preset"))

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Translate the guide's ``exp_phase_mpl.json``; see `Settings.translate`."""
        return translate(table, path, cls.model_fields)

    @classmethod
    def is_foreign(cls, key: str) -> bool:
        """Whether it is a key of the guide that is refused or left out; see `Settings.is_foreign`."""
        return key not in cls.model_fields and is_refused(key)

    @classmethod
    def translate_sets(cls, sets: Mapping[str, Any]) -> Foreign:
        """Give the reason; see `Settings.translate_sets`."""
        return translate_sets(sets)


component = Component(
    summary="Train a motion predictor, from teacher forcing to free runs (MPL).",
    options=TrainMplSettings,
    factory="motionkit_predictor.training.trainer:TrainMpl",
    search="motionkit_predictor.tuning.search_space:search",
    adjust="motionkit_predictor.tuning.recorded:run_metrics",
    advice="motionkit_predictor.tuning.advice:PredictorAdvisor",
    metrics="motionkit_predictor.metrics:METRICS",
    sections="motionkit_predictor.evaluation.pages:SECTIONS",
    charts="motionkit_predictor.evaluation.pages:CHARTS",
    models="motionkit_predictor.models:MODELS",
    next="motionkit_predictor.next:after_predictor",
    converted={"mpl": "motionkit_predictor.next:after_conversion"},
)
