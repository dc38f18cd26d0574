"""The keys of the reward-model guide's ``maniskill_ppo_cnn.yaml``, and what becomes of each. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

COMMON: Mapping[str, str] = {
    "algorithm.gamma": "objective.gamma",
    "algorithm.gae_lambda": "objective.gae_lambda",
    "algorithm.clip_ratio_low": "objective.clip_range",
    "algorithm.clip_ratio_high": "objective.clip_range",
    "algorithm.entropy_bonus": "objective.entropy",
    "algorithm.update_epoch": "objective.epochs",
    "algorithm.num_group_envs": "episodes.num_envs",
    "algorithm.n_chunk_steps": "episodes.steps",
    "actor.global_batch_size": "objective.batch_size",
    "actor.optim.lr": "optim.learning_rate",
    "actor.optim.clip_grad": "optim.grad_clip",
    "actor.seed": "seed",
    "runner.max_epochs": "run.num_steps",
}
"""Key of the guide, key here: of `ppo` and of `reward-collect`."""

PPO: Mapping[str, str] = {
    **COMMON,
    "actor.model.model_name": "policy.kind",
    "reward.reward_model.checkpoint_path": "reward.success-classifier.checkpoint",
    "reward.reward_model.reward_type": "reward.success-classifier.output",
    "reward.reward_model.image_keys": "reward.success-classifier.cameras",
    "reward.reward_model.image_size": "reward.success-classifier.image_size",
    "reward.reward_model.hidden_dim": "reward.success-classifier.hidden",
    "reward.reward_model.num_spatial_blocks": "reward.success-classifier.blocks",
}

COLLECT: Mapping[str, str] = {
    **COMMON,
    "actor.model.model_name": "actor.kind",
    "reward.data_collection.max_positive_trajectories": "quota.positive",
    "reward.data_collection.max_negative_trajectories": "quota.negative",
}

_HYDRA = "Hydra's own, and Hydra is not used here"
_CLUSTER = "one process trains; --workers shares the environments"
_OTHER = "PPO here has no such setting"
_CARD = "the classifier's own file says it"
_PLACE = "episodes go to the run folder; motionkit export RUN OUT --to npy writes the guide's files"

_ROOTS: Mapping[str, str] = {
    "defaults": "it chooses an environment; --env does",
    "hydra": _HYDRA,
    "cluster": _CLUSTER,
    "rollout": _CLUSTER,
    "critic": _OTHER,
    "algorithm": _OTHER,
    "actor": _OTHER,
    "runner": _OTHER,
    "env.group_name": _CLUSTER,
    "env.channel": _CLUSTER,
    "env.enable_offload": _CLUSTER,
    "env.train": "--env chooses an environment, --env.NAME its options",
    "env.eval": "held-out episodes use the environment of training",
    "reward.group_name": _CLUSTER,
}

PPO_LEFT_OUT: Mapping[str, str] = {
    **_ROOTS,
    "reward.reward_model": _CARD,
    "reward.data_collection": "of stage 1; reward-collect reads it",
}
COLLECT_LEFT_OUT: Mapping[str, str] = {
    **_ROOTS,
    "reward.reward_model": "of stage 3; ppo reads it",
    "reward.data_collection.positive_dir": _PLACE,
    "reward.data_collection.negative_dir": _PLACE,
    "reward.data_collection.image_keys": "every camera of the environment is kept",
}
"""Keys, or whole groups, that do nothing here, each with the reason."""

SWITCHES = ("reward.use_reward_model", "reward.collect_data")

NULL = {"reward.data_collection.max_positive_trajectories": 0, "reward.data_collection.max_negative_trajectories": 0}
"""What null means, where it means something."""

_OWN_ACTOR = ("kind", "width")
"""Settings of the actor that `reward-collect` trains."""

_REWARD = ("group_name", "use_reward_model", "collect_data", "reward_model", "data_collection")


def is_foreign(key: str) -> bool:
    """Whether a dotted key is the guide's; ``reward``, ``env`` and ``actor`` are groups of both."""
    first, _, rest = key.partition(".")
    second = rest.partition(".")[0]
    if first == "reward":
        return second in _REWARD
    if first == "env":
        return f"env.{second}" in _ROOTS
    if first == "actor":
        return second not in _OWN_ACTOR
    return first in _ROOTS
