"""Commands to type next: after a region policy is trained, and after self-play."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from motionkit import plugins
from motionkit.runs import RunInfo
from motionkit.runs.words import typed_flags, words_for


def after_pretraining(info: RunInfo) -> list[list[str]]:
    """Return lines for a policy that can play."""
    folder = str(info.directory)
    data = words_for(plugins.get("trainers", "sa2va-rl").options, info.config, ("dataset",))
    return [["sa2va-rl", *data, "--policy.checkpoint", folder], ["eval", "sa2va", folder], ["report", folder]]


def after_self_play(info: RunInfo) -> list[list[str]]:
    """Return lines for self-play; trusted code needs the flag again."""
    folder, policy = str(info.directory), info.config.get("policy")
    name = policy.get("name") if isinstance(policy, Mapping) else None
    trusted = shlex.split(typed_flags({"policy": policy}))
    chosen = ["--policy", str(name)] if trusted and "--policy" not in trusted else []
    further = ["--config", f"{folder}/config.json", "--policy.checkpoint", folder]
    return [
        ["report", folder],
        ["eval", "sa2va", folder, *chosen, *trusted],
        ["sa2va-rl", *further, *shlex.split(typed_flags(info.config, info.command))],
    ]
