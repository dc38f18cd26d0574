"""The guide's stage 3 as settings of `motionkit ppo`. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.config import Problem
from motionkit.trainers import _embodied
from motionkit.trainers._guide import GuideNames, Reading

_REWARD = "reward.success-classifier"
_MODEL = "reward.reward_model"

KEYS = {
    **_embodied.KEYS,
    "runner.val_check_interval": "heldout.every",
    "actor.model.model_name": "policy.kind",
    "actor.model.hidden_dim": "policy.width",
    "reward.reward_model_path": f"{_REWARD}.checkpoint",
    f"{_MODEL}.checkpoint_path": f"{_REWARD}.checkpoint",
    f"{_MODEL}.reward_type": f"{_REWARD}.output",
    f"{_MODEL}.image_keys": f"{_REWARD}.cameras",
    f"{_MODEL}.image_size": f"{_REWARD}.image_size",
    f"{_MODEL}.hidden_dim": f"{_REWARD}.hidden",
    f"{_MODEL}.num_spatial_blocks": f"{_REWARD}.blocks",
}
"""Key of the guide, key here."""

LEFT_OUT = {**_embodied.LEFT_OUT, "reward.data_collection": "of stage 1; reward-collect reads it"}


def _settled(reading: Reading) -> Sequence[Problem]:
    """Choose the reward: the classifier where the reward model is used, the environment's own where it is not."""
    found, given = reading.found, reading.given
    if reading.from_file:
        found.put("stage.file", str(found.path), "the file itself")
    if isinstance(use := given.get("reward.use_reward_model"), bool):
        # Whatever else the file says of the classifier counts where a flag chooses it after all.
        found.put("reward.", ["success-classifier" if use else "env"], "reward.use_reward_model")
        found.sources["reward"] = "reward.use_reward_model"
        if use and given.get(f"{_MODEL}.checkpoint_path") in (None, "") and reading.from_file:
            found.notes.append("checkpoint_path is empty: the newest finished run of reward-train is the reward model.")
    return ()


NAMES = GuideNames(KEYS, LEFT_OUT, _embodied.ROOTS, _embodied.fitted, _settled)
