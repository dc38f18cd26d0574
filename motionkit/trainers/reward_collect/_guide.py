"""The guide's stage 1 as settings of `motionkit reward-collect`. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motionkit.config import Foreign, Problem
from motionkit.trainers import _embodied
from motionkit.trainers._guide import GuideNames, Reading

_DATA = "reward.data_collection"
_FILES = "episodes are kept in the run; motionkit export RUN --to npy DIR writes the guide's files"
_ALL = "all cameras of the environment are kept"
_STAGE = "of stage 3; ppo reads it"

KEYS = {
    **_embodied.KEYS,
    "actor.model.model_name": "actor.kind",
    "actor.model.hidden_dim": "actor.width",
    f"{_DATA}.max_positive_trajectories": "quota.positive",
    f"{_DATA}.max_negative_trajectories": "quota.negative",
}
"""Key of the guide, key here."""

LEFT_OUT = {
    **_embodied.LEFT_OUT,
    "reward.reward_model": _STAGE,
    "reward.reward_model_path": _STAGE,
    f"{_DATA}.positive_dir": _FILES,
    f"{_DATA}.negative_dir": _FILES,
    f"{_DATA}.image_keys": _ALL,
}
_QUOTAS = (f"{_DATA}.max_positive_trajectories", f"{_DATA}.max_negative_trajectories")


def _settled(reading: Reading) -> Sequence[Problem]:
    found, given = reading.found, reading.given
    if reading.from_file:
        found.put("stage.file", str(found.path), "the file itself")
    for key in _QUOTAS:
        if key in given and given[key] is None:  # the guide's "no limit", where a key that is absent is our default
            _put(reading, key, 0)
    return ()


def _put(reading: Reading, key: str, value: Any) -> None:
    found: Foreign = reading.found
    found.put(KEYS[key], value, key)
    reading.read[key] = KEYS[key]
    reading.left.pop(key, None)


NAMES = GuideNames(KEYS, LEFT_OUT, _embodied.ROOTS, _embodied.fitted, _settled)
