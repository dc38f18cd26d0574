"""Commands to type next: episodes, then the classifier, then the policy that it rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.runs import RunInfo, peek
from motionkit.runs.words import words_for


def after_collect(info: RunInfo) -> list[list[str]]:
    """Return lines for episodes; those of an environment's scripted solution are also demonstrations."""
    folder = str(info.directory)
    env = words_for(plugins.get("trainers", "ppo").options, info.config, ("env",))
    clone = [["ppo", *env, "--init", folder]] if info.config.get("policy") == "scripted" else []
    return [["reward-train", "--data", folder], *clone, ["report", folder]]


def after_classifier(info: RunInfo) -> list[list[str]]:
    """Return lines for a success classifier, a reward in the environment of its pictures unless a check failed."""
    folder = str(info.directory)
    summary = (info.record.summary if info.record else None) or {}
    fit = all(check.get("status") != "fail" for check in summary.get("checks", ()))
    learn = []
    if fit and (table := _environment(info)) is not None:
        env = words_for(plugins.get("trainers", "ppo").options, {"env": table}, ("env",))
        learn = [["ppo", *env, "--reward", "success-classifier", "--reward.checkpoint", folder]]
    return [*learn, ["eval", "reward", folder], ["report", folder]]


def _environment(info: RunInfo) -> Mapping[str, Any] | None:
    """Return the settings of the environment of a classifier's pictures; None if unknown.

    They are those of the run of the pictures, else of the classifier's record, which must not name code.
    """
    data = info.config.get("data")
    for place in data.get("path") or () if isinstance(data, Mapping) else ():
        try:
            table = peek(str(place)).config.get("env")
        except MotionkitError:
            continue
        if isinstance(table, Mapping):
            return table
    table = (info.record.model_extra or {}).get("environment") if info.record is not None else None
    named = table.get("name") if isinstance(table, Mapping) else None
    return table if isinstance(named, str) and not plugins.is_file(named) else None


def after_ppo(info: RunInfo) -> list[list[str]]:
    """Return lines for a policy: its own episodes."""
    folder = str(info.directory)
    env = words_for(plugins.get("trainers", "reward-collect").options, info.config, ("env",))
    return [["reward-collect", *env, "--policy", folder], ["report", folder]]


def chosen_by(summary: Mapping[str, Any]) -> str:
    """Return how the policy of an older run of `ppo` was chosen, whose summary does not say it."""
    return "true success (older version)" if "success" in summary else ""
