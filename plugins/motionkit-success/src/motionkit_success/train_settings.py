"""`motionkit reward-train`: trains a success classifier on collected episodes. Light half, imports no torch.

The reward-model guide's ``train_reward_model.yaml`` is translated into these settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from motionkit.config import Cli, Foreign, Group, Layer, Problem, interpolate, split_commas
from motionkit.plugins import Component, either
from motionkit.training.guide_yaml import Reading, closed, leaves, reading
from motionkit.training.settings import CheckpointSettings, EpochRunSettings, OptimSettings, TrainerSettings
from motionkit_success.episode_formats import folders

Architecture = Literal["auto", "small", "resnet10"]

STEPS, FEWEST_EPOCHS = 300, 3
"""Steps that are made by default, and the fewest epochs."""


class RewardDataSettings(Group):
    """Where the frames come from."""

    path: Annotated[tuple[str, ...], BeforeValidator(split_commas), Cli("--data")] = Field(
        (),
        description=f"{either(['Run of reward-collect', 'folder of episodes', *folders()])}, repeatable; default: the "
        "newest finished run.",
    )
    positive_dir: Annotated[Path | None, Cli("--data.positive-dir")] = Field(
        None, description="The guide's folder of .npy trajectories that succeed."
    )
    negative_dir: Annotated[Path | None, Cli("--data.negative-dir")] = Field(
        None, description="The guide's folder of .npy trajectories that do not."
    )
    labels: Annotated[Path | None, Cli("--data.labels")] = Field(
        None,
        description="CSV of a person's labels instead of the data's: episode, label (0 or 1) and, for a label that "
        "begins within an episode, frame.",
    )
    cameras: Annotated[tuple[str, ...], BeforeValidator(split_commas), Cli("--data.cameras")] = Field(
        (), description="Cameras to look through, comma-separated; default: all of the data."
    )
    image_size: tuple[int, ...] = Field(
        (), max_length=3, description="Size that images must have, height and width; () takes that of the data."
    )
    val_share: float = Field(0.15, gt=0, lt=0.5, description="Share of episodes that choose weights and threshold.")
    test_share: float = Field(0.15, gt=0, lt=0.5, description="Share of episodes that are measured on, once.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.positive_dir is None) != (self.negative_dir is None):
            raise ValueError("--data.positive-dir and --data.negative-dir go together")
        if self.path and self.positive_dir is not None:
            raise ValueError("--data and --data.positive-dir are two sources; give one of them")
        if self.labels is not None and self.positive_dir is not None:
            raise ValueError("--data.labels names episodes of --data, and --data.positive-dir holds files")
        if self.image_size and (len(self.image_size) == 1 or min(self.image_size) < 1):
            raise ValueError("image_size is height and width, or 3, height and width")
        return self


class RewardModelSettings(Group):
    """The classifier."""

    architecture: Annotated[Architecture, Cli("--model.architecture")] = Field(
        "auto",
        description="small: for one core of a CPU; resnet10: the guide's; auto: small without a pretrained file.",
    )
    pretrained: Annotated[Path | None, Cli("--model.pretrained")] = Field(
        None, description="The guide's resnet10_pretrained.pt."
    )
    freeze: Annotated[Literal["auto", "always", "never"], Cli("--model.freeze")] = Field(
        "auto", description="Leave the encoder as it is; auto: with a pretrained file. A random one is never frozen."
    )
    hidden: int = Field(256, ge=8, le=8192, description="Width of resnet10's layers and head.")
    blocks: int = Field(8, ge=1, le=256, description="Spatial sums of each channel of resnet10.")

    @property
    def chosen(self) -> Literal["small", "resnet10"]:
        """The architecture that is built."""
        if self.architecture == "auto":
            return "small" if self.pretrained is None else "resnet10"
        return self.architecture

    @property
    def frozen(self) -> bool:
        """Whether the encoder is left as it is."""
        return self.pretrained is not None and self.freeze != "never"

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.chosen == "resnet10" else dict.fromkeys(("hidden", "blocks"), "the small network has none")

    @model_validator(mode="after")
    def _no_random_frozen(self) -> Self:
        if self.architecture == "small" and self.pretrained is not None:
            raise ValueError("a pretrained file is for resnet10; leave --model.architecture small out")
        if self.freeze == "always" and self.pretrained is None:
            raise ValueError(
                "freeze is always, and there is no --model.pretrained FILE: a random encoder that is frozen sees too "
                "little; give a file, or --model.freeze auto, which trains it"
            )
        return self


class RewardBatchSettings(Group):
    """Batches."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(128, ge=2, le=65_536, description="Frames of a batch.")
    negatives: float = Field(
        3.0, ge=0, le=1000, description="Frames of label 0 for each of label 1 in a batch; 0: as they come."
    )
    final_rate: float = Field(0.02, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    val_every: int = Field(1, ge=0, description="Epochs between measurements on validation episodes; 0: at the end.")


class AugmentSettings(Group):
    """Changes of the training images; none if the encoder is frozen."""

    shift: int = Field(2, ge=0, le=64, description="Most pixels that an image is moved by, each way.")
    brightness: float = Field(0.1, ge=0, lt=1, description="Most that an image's brightness is changed by, as a share.")


class ThresholdSettings(Group):
    """The probability from which a frame is a success, chosen on validation episodes."""

    rule: Literal["precision", "f"] = Field(
        "precision", description="precision: the lowest threshold that reaches it; f: the highest F-measure."
    )
    precision: Annotated[float, Cli("--threshold.precision")] = Field(
        0.95, gt=0, le=1, description="Precision to reach; if nothing does, the F-measure decides."
    )
    beta: float = Field(0.5, gt=0, le=100, description="Weight of recall in the F-measure.")


class RewardControlSettings(Group):
    """Negative control."""

    shuffle: bool = Field(
        False, description="Nothing should be learned: shuffle the labels of the training and of the validation frames."
    )


class RewardRunSettings(EpochRunSettings):
    """Where the run goes and how long it lasts."""

    epochs: Annotated[int, Cli("--epochs", panel="Run")] = Field(
        0, ge=0, le=1_000_000, description="Passes over the training frames; 0: about 300 steps, 3 or more."
    )


class RewardTrainSettings(TrainerSettings):
    """Settings of `motionkit reward-train`."""

    run: RewardRunSettings = RewardRunSettings()
    checkpoint: CheckpointSettings = CheckpointSettings(every=200)
    data: RewardDataSettings = RewardDataSettings()
    model: RewardModelSettings = RewardModelSettings()
    train: RewardBatchSettings = RewardBatchSettings()
    augment: AugmentSettings = AugmentSettings()
    threshold: ThresholdSettings = ThresholdSettings()
    control: RewardControlSettings = RewardControlSettings()
    optim: OptimSettings = OptimSettings(learning_rate=2e-3, weight_decay=1e-4, warmup_steps=20)

    def epochs(self, per_epoch: int) -> int:
        """Return the number of epochs, given the steps in one."""
        return self.run.epochs or max(FEWEST_EPOCHS, round(STEPS / per_epoch))

    @classmethod
    def preset_of(cls, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Layer | None:
        """Return a lower learning rate for ResNet10; see `Settings.preset_of`."""
        model = given.get("model")
        table = model if isinstance(model, Mapping) else {}
        if table.get("architecture") == "resnet10" or table.get("pretrained"):
            values = {"optim.learning_rate": 3e-4}
            return Layer.of("resnet10", values, off="--learning-rate sets another")
        return None

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Translate the guide's ``train_reward_model.yaml``; see `Settings.translate`."""
        return translate(table, path, cls.model_fields)

    @classmethod
    def is_foreign(cls, key: str) -> bool:
        """Whether it is a dotted name of the guide; see `Settings.is_foreign`."""
        return is_foreign(key)

    @classmethod
    def translate_sets(cls, sets: Mapping[str, Any]) -> Foreign:
        """Translate the guide's dotted names; see `Settings.translate_sets`."""
        done = reading("command line")
        _read(done, sets)
        return done.finish("names of the reward-model guide, read as")


component = Component(
    summary="Train a success classifier on collected episodes, for ppo to be rewarded by.",
    options=RewardTrainSettings,
    factory="motionkit_success.train:RewardTrain",
    metrics="motionkit_success.metrics:METRICS",
    sections="motionkit_success.pages:SECTIONS",
    charts="motionkit_success.pages:CHARTS",
    models="motionkit_success.models:MODELS",
    next="motionkit_success.next:after_classifier",
)


# The guide's keys, and the settings that they set

KEYS: Mapping[str, str] = {
    "reward.global_batch_size": "train.batch_size",
    "reward.micro_batch_size": "train.batch_size",
    "reward.num_epochs": "run.epochs",
    "reward.log_interval": "log.every",
    "reward.save_interval": "checkpoint.every",
    "reward.seed": "seed",
    "reward.gpu_id": "device",
    "reward.save_dir": "run.out",
    "reward.model.image_keys": "data.cameras",
    "reward.model.image_size": "data.image_size",
    "reward.model.hidden_dim": "model.hidden",
    "reward.model.num_spatial_blocks": "model.blocks",
    "reward.model.pretrained_encoder_path": "model.pretrained",
    "reward.model.freeze_encoder": "model.freeze",
    "reward.optim.lr": "optim.learning_rate",
    "reward.optim.clip_grad": "optim.grad_clip",
    "reward.optim.weight_decay": "optim.weight_decay",
    "reward.data.positive_dir": "data.positive_dir",
    "reward.data.negative_dir": "data.negative_dir",
    "reward.data.image_key": "data.cameras",
}
"""Key of the guide, key here."""

_HYDRA = "Hydra's own, and Hydra is not used here"
_CLUSTER = "one process trains, without Ray"
_SCHEDULE = "the rate falls by a cosine here; optim.warmup_steps and train.final_rate shape it"
_STAGES = "of stages 1 and 3; reward-collect and ppo read it"

_PLACE = "it is part of reward.save_dir"
_BETAS = "optim.betas sets it"

LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(("defaults", "hydra"), _HYDRA),
    **dict.fromkeys(("cluster", "reward.group_name", "reward.training_backend"), _CLUSTER),
    **dict.fromkeys(("runner.output_dir", "runner.experiment_name"), _PLACE),
    "runner.task_type": "reward-train trains on images",
    "runner.logger": "motionkit logs its own metrics; --track adds a tracker",
    "reward.data.num_workers": "frames are read from files that are mapped into memory",
    "reward.model.use_pretrain": "a file says it: reward.model.pretrained_encoder_path",
    "reward.optim.optimizer": "AdamW, as the guide's code",
    "reward.optim.adam_eps": "AdamW's own 1e-8 is used",
    **dict.fromkeys(("reward.optim.adam_beta1", "reward.optim.adam_beta2"), _BETAS),
    **dict.fromkeys(("reward.lr_sched", "reward.optim.lr_sched"), _SCHEDULE),
    **{f"reward.{key}": _STAGES for key in ("use_reward_model", "collect_data", "reward_model", "data_collection")},
}
"""Keys, or groups, that are ignored, each with the reason."""

ROOTS = ("defaults", "hydra", "cluster", "runner", "reward")
"""First parts of the guide's names; none of them is a group here."""


def is_foreign(key: str) -> bool:
    """Whether a dotted key is the guide's."""
    return key.split(".")[0] in ROOTS


def translate(table: Mapping[str, Any], path: Path, known: Collection[str]) -> Foreign | None:
    """Translate a file of the guide; see `motionkit.config.Settings.translate`.

    The file may also have groups of motionkit; these win.
    """
    if not any(map(is_foreign, table)):
        return None
    # Groups that are ignored may hold references that do not resolve here.
    stop = closed(LEFT_OUT, KEYS)
    values = {**table, **interpolate({key: value for key, value in table.items() if key not in stop}, path)}
    done = reading(path)
    foreign = done.found
    _read(done, dict(leaves({key: value for key, value in values.items() if key not in known}, LEFT_OUT)))
    if "run.out" not in foreign.values and isinstance(runner := values.get("runner"), Mapping):
        parts = [runner[key] for key in ("output_dir", "experiment_name") if isinstance(runner.get(key), str)]
        if parts:
            foreign.put("run.out", str(PurePosixPath(*parts)), "runner")
    foreign.put("model.architecture", "resnet10", "the guide's model")
    for name, value in leaves({key: values[key] for key in values if key in known}):  # motionkit's settings win
        foreign.put(name, value, name)
    done.finish(f"{path} is a config of the reward-model guide; read as")
    foreign.notes.append("Paths count from the working folder.")
    return foreign


def _read(done: Reading, values: Mapping[str, Any]) -> None:
    foreign = done.found
    if (task := values.get("runner.task_type")) not in ("embodied", None):
        message = "reward-train learns from images: embodied"
        done.problems.append(Problem("runner.task_type", message, str(foreign.path), repr(task)))
    done.rename(values, KEYS, LEFT_OUT, partial(_fitted, foreign))
    if values.get("reward.model.freeze_encoder") is True:
        foreign.notes.append(
            "freeze_encoder: true freezes an encoder that comes from a file. Without --model.pretrained FILE it is "
            "trained: the guide's code would freeze random weights, which see too little."
        )
    if values.get("reward.model.use_pretrain") is False and "model.pretrained" in foreign.values:
        del foreign.values["model.pretrained"]
        done.left["reward.model.pretrained_encoder_path"] = "use_pretrain is false"
        done.read.pop("reward.model.pretrained_encoder_path", None)


def _fitted(foreign: Foreign, key: str, value: Any) -> Any:
    """Convert a value to motionkit's form."""
    if key == "reward.gpu_id":
        if value in (0, "0"):
            foreign.notes.append("gpu_id 0 is --device auto: the first GPU if there is one.")
            return "auto"
        return value
    if key == "reward.model.freeze_encoder" and isinstance(value, bool):
        return "auto" if value else "never"
    if key == "reward.save_dir" and isinstance(value, str):
        place = PurePosixPath(value)
        # A run has its checkpoints in a folder of that name: so they go where the guide has them.
        return str(place.parent) if place.name == "checkpoints" and place.parent.name else value
    if key in ("reward.model.image_keys", "reward.data.image_key") and isinstance(value, str):
        return [value]
    return value
