"""The keys of the reward-model guide's ``train_reward_model.yaml``, and what becomes of each. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from motionkit.trainers._guide_yaml import reason_in

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

LEFT_OUT: Mapping[str, str] = {
    "defaults": _HYDRA,
    "hydra": _HYDRA,
    "cluster": _CLUSTER,
    "reward.group_name": _CLUSTER,
    "reward.training_backend": _CLUSTER,
    "runner.output_dir": "it is part of reward.save_dir",
    "runner.experiment_name": "it is part of reward.save_dir",
    "runner.task_type": "reward-train trains on images",
    "runner.logger": "motionkit logs its own metrics; --track adds a tracker",
    "reward.data.num_workers": "frames are read from files that are mapped into memory",
    "reward.model.use_pretrain": "a file says it: reward.model.pretrained_encoder_path",
    "reward.optim.optimizer": "AdamW, as the guide's code",
    "reward.optim.adam_eps": "AdamW's own 1e-8 is used",
    "reward.optim.adam_beta1": "optim.betas sets it",
    "reward.optim.adam_beta2": "optim.betas sets it",
    "reward.lr_sched": _SCHEDULE,
    "reward.optim.lr_sched": _SCHEDULE,
    "reward.use_reward_model": _STAGES,
    "reward.collect_data": _STAGES,
    "reward.reward_model": _STAGES,
    "reward.data_collection": _STAGES,
}
"""Keys, or whole groups, that do nothing here, each with the reason."""

ROOTS = ("defaults", "hydra", "cluster", "runner", "reward")
"""First parts of the guide's names; none of them is a group here."""


def reason_left_out(key: str) -> str:
    """Return why a dotted key does nothing here; empty when it is no such key."""
    return reason_in(LEFT_OUT, key)
