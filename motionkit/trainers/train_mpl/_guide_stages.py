"""Stages as the guide's files have them, given the form that they have here. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motionkit.config import Problem
from motionkit.errors._near import did_you_mean
from motionkit.trainers.train_mpl._guide_keys import FOOT, FOOT_FIX, LOSSES, reason_left_out
from motionkit.trainers.train_mpl._stages import TRAINER_KEYS

_WEIGHTS = {f"w_{loss}": f"w_{loss}" for loss in LOSSES} | {"w_attn": "w_attn_reg", "w_latent": "w_latent_consistency"}
_TARGETS = "tune --metrics judges by the baselines and the run's own teacher values"


def translate_stages(stages: object, origin: str, left: dict[str, str], problems: list[Problem]) -> object:
    """Return the stages of a file with the names that `Stage` has.

    Early files have ``loss`` in place of ``loss_groups`` and a table ``tf``, whose ``max`` and ``min`` are values of
    the trainer here.

    Args:
        stages: What stands under ``freerun_stage_schedule``; returned as it is where it is no list of tables.
        origin: The file.
        left: Keys that do nothing, with reasons; added to.
        problems: What is wrong; added to.
    """
    if not isinstance(stages, list):
        return stages
    return [
        _stage(stage, f"freerun_stage_schedule.{number}", origin, left, problems)
        if isinstance(stage, Mapping)
        else stage
        for number, stage in enumerate(stages, start=1)
    ]


def _stage(
    stage: Mapping[str, Any], where: str, origin: str, left: dict[str, str], problems: list[Problem]
) -> dict[str, Any]:
    found = {key: stage[key] for key in ("range", "label") if key in stage}
    trainer: dict[str, Any] = {}
    for key, value in _table(stage, "trainer", where, origin, problems).items():
        if key in TRAINER_KEYS:
            trainer[key] = value
        else:
            _other(key, value, f"{where}.trainer", origin, left, problems, TRAINER_KEYS)
    for key, value in _table(stage, "tf", where, origin, problems).items():
        if key in ("max", "min"):
            trainer[f"tf_{key}"] = value
        else:
            _other(key, value, f"{where}.tf", origin, left, problems, {"max": "", "min": ""})
    groups: dict[str, dict[str, Any]] = {}
    given = dict(_table(stage, "loss_groups", where, origin, problems))
    if "loss" in stage:
        given["core"] = {**_table(stage, "loss", where, origin, problems), **given.get("core", {})}
    for group, weights in given.items():
        inside = groups.setdefault(group, {})
        if not isinstance(weights, Mapping):
            problems.append(
                Problem(f"{where}.loss_groups.{group}", "must be a table of weights", origin, repr(weights))
            )
            continue
        for key, value in weights.items():
            if key in _WEIGHTS:
                inside[_WEIGHTS[key]] = value
            else:
                _other(key, value, f"{where}.loss_groups.{group}", origin, left, problems, _WEIGHTS)
    for key in stage.keys() - {"range", "label", "trainer", "tf", "loss", "loss_groups"}:
        if key == "targets":
            left[f"{where}.targets"] = _TARGETS
        else:
            _other(key, stage[key], where, origin, left, problems, {"range": "", "trainer": "", "loss_groups": ""})
    return {**found, "trainer": trainer, "loss_groups": groups}


def _table(stage: Mapping[str, Any], name: str, where: str, origin: str, problems: list[Problem]) -> Mapping[str, Any]:
    value = stage.get(name)
    if value is None or isinstance(value, Mapping):
        return value or {}
    problems.append(Problem(f"{where}.{name}", "must be a table", origin, repr(value)))
    return {}


def _other(
    key: str, value: object, where: str, origin: str, left: dict[str, str], problems: list[Problem],
    known: Mapping[str, str],
) -> None:  # fmt: skip
    if key.startswith("w_foot_"):
        problems.append(Problem(f"{where}.{key}", FOOT, origin, repr(value), FOOT_FIX))
    elif reason := reason_left_out(key):
        left[key] = reason
    else:
        shown = "" if isinstance(value, (Mapping, list)) else repr(value)
        problems.append(Problem(f"{where}.{key}", "unknown setting", origin, shown, did_you_mean(key, known)))
