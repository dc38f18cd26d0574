"""The guide's settings file of stages 1 and 3, ``maniskill_ppo_cnn.yaml``: what its keys mean here. Imports no torch.

One file serves two commands. ``reward.collect_data`` makes it stage 1, `motionkit reward-collect`;
``reward.use_reward_model`` makes it stage 3, `motionkit ppo` on a trained classifier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from motionkit.config import Foreign, Group
from motionkit.trainers._guide import CLUSTER, HYDRA

ROOTS = ("defaults", "hydra", "cluster", "runner", "algorithm", "env", "rollout", "actor", "reward", "critic")
"""First parts of the file's keys."""

_LEARNER = "of the guide's learner; the options of PPO here are in objective and episodes"
_NETWORK = "of the guide's networks; policy.kind and policy.width shape those here"
_MODEL = "the checkpoint says it"
_ADAM = "Adam's own values are used"

KEYS: Mapping[str, str] = {
    "runner.max_epochs": "run.num_steps",
    "runner.save_interval": "checkpoint.every",
    "algorithm.update_epoch": "objective.epochs",
    "algorithm.num_group_envs": "episodes.num_envs",
    "algorithm.n_chunk_steps": "episodes.steps",
    "algorithm.gamma": "objective.gamma",
    "algorithm.gae_lambda": "objective.gae_lambda",
    "algorithm.entropy_bonus": "objective.entropy",
    "algorithm.clip_ratio_high": "objective.clip_range",
    "algorithm.clip_ratio_low": "objective.clip_range",
    "actor.global_batch_size": "objective.batch_size",
    "actor.seed": "seed",
    "actor.optim.lr": "optim.learning_rate",
    "actor.optim.clip_grad": "optim.grad_clip",
    "reward.use_reward_model": "stage.use_reward_model",
    "reward.collect_data": "stage.collect_data",
}
"""Key of the guide, key here; those that both commands have."""

LEFT_OUT: Mapping[str, str] = {
    "defaults": f"{HYDRA}; --env names the environment",
    "hydra": HYDRA,
    "cluster": CLUSTER,
    "runner.logger": "runs are below ./runs, or where --out says; --track adds a tracker",
    "runner": "an update is a step here: runner.max_epochs",
    "algorithm": _LEARNER,
    "env.train": "--env names the environment, --env.OPTION sets its options",
    "env.eval": "--env names the environment, --env.OPTION sets its options",
    "env.group_name": CLUSTER,
    "env.channel": CLUSTER,
    "env.enable_offload": CLUSTER,
    "rollout": CLUSTER,
    "critic": "actor and critic are trained together",
    "actor.group_name": CLUSTER,
    "actor.channel": CLUSTER,
    "actor.training_backend": CLUSTER,
    "actor.checkpoint_load_path": "--init takes a trained policy",
    "actor.checkpoint_save_path": "checkpoints are in the run",
    "actor.micro_batch_size": "gradients are not accumulated",
    "actor.enable_offload": CLUSTER,
    "actor.model": _NETWORK,
    "actor.optim.value_lr": "actor and critic have one learning rate",
    "actor.optim.adam_beta1": _ADAM,
    "actor.optim.adam_beta2": _ADAM,
    "actor.optim.adam_eps": _ADAM,
    "actor.fsdp_config": CLUSTER,
    "actor.fsdp": CLUSTER,
    "reward.group_name": CLUSTER,
    "reward.reward_model.pretrained_encoder_path": _MODEL,
    "reward.reward_model.use_pretrain": _MODEL,
    "reward.reward_model.freeze_encoder": _MODEL,
}
"""Keys, or whole groups, that do nothing in either command, each with the reason."""

_KINDS = {"cnn": "pixels", "mlp": "mlp"}
_NEVER = ("runner.save_interval", "runner.val_check_interval")


def fitted(key: str, value: Any, found: Foreign) -> Any:
    """Bring a value of the file into the form that it has here; see `GuideNames.fit`."""
    if key == "actor.model.model_name":
        if value not in _KINDS:
            raise ValueError("the actors here are cnn (--policy pixels) and mlp")
        return _KINDS[value]
    if key in _NEVER and value == -1:
        return 0
    if key.endswith("image_keys") and isinstance(value, str):
        return [value]
    return value


class StageSettings(Group):
    """What the guide's settings file of stages 1 and 3 asks for."""

    file: str = Field("", description="Where it stands; filled in by itself.")
    use_reward_model: bool | None = Field(None, description="Of the guide's files: stage 3, motionkit ppo.")
    collect_data: bool = Field(False, description="Of the guide's files: stage 1, motionkit reward-collect.")

    @field_validator("collect_data")
    @classmethod
    def _one_stage(cls, value: bool, others: ValidationInfo) -> bool:
        if value and others.data.get("use_reward_model"):
            raise ValueError(
                "collect_data and use_reward_model are both true: one run either collects frames to train the reward "
                "model on, or is rewarded by it; set one of them to false"
            )
        cls.refuse(collect=value, use=bool(others.data.get("use_reward_model")), file=others.data.get("file") or "FILE")
        return value

    @classmethod
    def refuse(cls, *, collect: bool, use: bool, file: str) -> None:
        """Refuse the stage that another command does, by a ``ValueError`` that names the command."""


class TrainStage(StageSettings):
    """For `motionkit ppo`, which is stage 3."""

    @classmethod
    def refuse(cls, *, collect: bool, use: bool, file: str) -> None:
        """Refuse stage 1."""
        if collect:
            raise ValueError(f"this is stage 1, which another command does: motionkit reward-collect --config {file}")


class CollectStage(StageSettings):
    """For `motionkit reward-collect`, which is stage 1."""

    @classmethod
    def refuse(cls, *, collect: bool, use: bool, file: str) -> None:
        """Refuse stage 3."""
        if use:
            raise ValueError(
                f"use_reward_model is true: this is stage 3, which another command does: motionkit ppo --config {file}"
            )
