"""The guide's ``maniskill_ppo_cnn.yaml``: its keys and the settings that they set. Imports no torch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from motionkit.config import Foreign, interpolate
from motionkit.errors import MotionkitError
from motionkit.training.guide_yaml import closed, leaves, reading

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
    **dict.fromkeys(("cluster", "rollout", "env.group_name", "env.channel", "env.enable_offload"), _CLUSTER),
    **dict.fromkeys(("critic", "algorithm", "actor", "runner"), _OTHER),
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
"""Keys, or groups, that are ignored, each with the reason."""

SWITCHES = ("reward.use_reward_model", "reward.collect_data")

NULL = {"reward.data_collection.max_positive_trajectories": 0, "reward.data_collection.max_negative_trajectories": 0}
"""Keys that may be null, and the value that null stands for."""

_OWN_ACTOR = ("kind", "width")  # settings of the actor that `reward-collect` trains
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


Command = Literal["ppo", "reward-collect"]
_ACTORS = {"cnn": "pixels", "mlp": "mlp", "mlp_policy": "mlp"}


def translate_stage(table: Mapping[str, Any], path: Path, command: Command) -> Foreign | None:
    """Translate a file of the guide for a command; see `motionkit.config.Settings.translate`.

    ``use_reward_model`` chooses the reward of `ppo`; ``collect_data`` is what `reward-collect` does.
    """
    keys, left_out = (PPO, PPO_LEFT_OUT) if command == "ppo" else (COLLECT, COLLECT_LEFT_OUT)
    stop = closed(left_out, keys)
    if not any(is_foreign(key) for key, _ in leaves(table, stop)):
        return None
    # Groups that are ignored may hold references that do not resolve here.
    values = interpolate({key: value for key, value in table.items() if key not in stop}, path)
    flat = dict(leaves({key: values.get(key, value) for key, value in table.items()}, stop))
    foreign = _read({key: value for key, value in flat.items() if is_foreign(key)}, path, command)
    for key, value in flat.items():  # motionkit's settings win
        if not is_foreign(key):
            foreign.put(key, value, key)
    return foreign


def translate_words(sets: Mapping[str, Any], command: Command) -> Foreign:
    """Translate the guide's dotted names on the command line; see `Settings.translate_sets`."""
    return _read(sets, None, command)


def _read(values: Mapping[str, Any], path: Path | None, command: Command) -> Foreign:
    done = reading(path or "command line")
    use, collect = (bool(values.get(name)) for name in SWITCHES)
    if use and collect:
        raise MotionkitError(
            "use_reward_model and collect_data are both true.",
            why="data that a learned reward has shaped would train that reward: collect first, learn then.",
            fix=f"{_line('reward-collect', path)} with {SWITCHES[1]}=true alone, then "
            f"{_line('ppo', path)} with {SWITCHES[0]}=true alone.",
        )
    if (collect and command == "ppo") or (use and command == "reward-collect"):
        other = "reward-collect" if collect else "ppo"
        switch = SWITCHES[1] if collect else SWITCHES[0]
        raise MotionkitError(f"{switch} is true: that is motionkit {other}.", fix=_line(other, path))
    rest = {key: NULL.get(key) if value is None else value for key, value in values.items() if key not in SWITCHES}
    keys, left_out = (PPO, PPO_LEFT_OUT) if command == "ppo" else (COLLECT, COLLECT_LEFT_OUT)
    if command == "ppo" and not use:
        left_out = {**left_out, **{key: "use_reward_model is not true" for key in keys if "reward_model" in key}}
        keys = {key: here for key, here in keys.items() if "reward_model" not in key}
    done.rename(rest, keys, left_out, _fitted)
    foreign = done.found
    if command == "ppo" and SWITCHES[0] in values:
        foreign.put("reward.", "success-classifier" if use else "env", SWITCHES[0])
        done.read[SWITCHES[0]] = "reward"
    source = "names of the reward-model guide" if path is None else f"{path} is a config of the reward-model guide;"
    done.finish(f"{source} read as")
    if any(key.startswith(("defaults", "env.")) for key in values):
        foreign.notes.append(
            "The environment is chosen by --env; without it, it is that of the classifier's data, else reach."
        )
    return foreign


def _fitted(key: str, value: Any) -> Any:
    """Convert a value to motionkit's form."""
    return _ACTORS.get(value, value) if key == "actor.model.model_name" and isinstance(value, str) else value


def _line(command: str, path: Path | None) -> str:
    return shlex.join(["motionkit", command, *([] if path is None else ["--config", str(path)])])
