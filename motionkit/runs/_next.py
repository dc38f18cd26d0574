"""Commands to type after a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from motionkit.config import typed_flags
from motionkit.runs._listing import RunInfo
from motionkit.runs._resume import resume_line

_EXAMPLE = "a person walks | a person waves"
_AFTER: dict[str, tuple[tuple[str, ...], ...]] = {
    "reward-collect": (("reward-train", "--data", "{run}"), ("report", "{run}")),
    "reward-train": (
        ("ppo", "--reward", "success-classifier", "--reward.checkpoint", "{run}"),
        ("eval", "reward", "{run}"),
        ("report", "{run}"),
    ),
    "pretrain regions": (
        ("sa2va-rl", "--policy.checkpoint", "{run}"),
        ("eval", "sa2va", "{run}"),
        ("report", "{run}"),
    ),
    "ppo": (("reward-collect", "--policy", "{run}"), ("report", "{run}")),
}


def next_commands(info: RunInfo) -> list[str]:
    """Return shell lines that make sense after a run: use its model, train on, look at it again."""
    folder = str(info.directory)
    lines = []
    if info.command in _OWN and info.status == "done":
        return _OWN[info.command](info)
    if (info.directory / "policy").is_dir() and info.status == "done":
        lines.append(shlex.join(["motionkit", "generate", _EXAMPLE, "motions", "--policy.checkpoint", folder]))
    for part, reward in (("tmr", "tmr-dense"), ("evaluator", "mdm-dense")):
        if (info.directory / part).is_dir() and info.status == "done":
            lines.append(shlex.join(["motionkit", "grpo", "--reward", reward, "--reward.weights", f"{folder}/{part}"]))
    if (info.directory / "encoder").is_dir() and info.status == "done":
        lines.append(shlex.join(["motionkit", "train-mpl", "--encoder", folder, *_same_clips(info)]))
    if info.status == "done" and (after := _AFTER.get(info.command)):
        return [shlex.join(["motionkit", *(word.format(run=folder) for word in line)]) for line in after]
    resume = resume_line(info.command, info.directory)
    if info.status != "done":
        return [*lines, resume, shlex.join(["motionkit", "runs", "show", folder])]
    shape = info.record is not None and info.command.startswith("pretrain")
    if not shape and info.steps:
        lines.append(f"{resume} --num-steps {2 * info.steps}")
    return [*lines, shlex.join(["motionkit", "runs", "show", folder])]


def _after_predictor(info: RunInfo) -> list[str]:
    """Return lines for a motion predictor.

    Its schedules span the epochs of the run, so that a longer one is a new run with the same settings, not a resumed
    one.
    """
    folder = str(info.directory)
    again = ["--config", f"{folder}/config.json"]
    lines = [["eval", "mpl", folder], ["predict", folder, "motion.html"]]
    epochs = info.last().get("data/epoch")
    if isinstance(epochs, (int, float)) and epochs >= 1:
        lines.append(["train-mpl", *again, "--epochs", str(2 * round(epochs))])
    lines += [["tune-bayes", *again], ["report", folder]]
    return [shlex.join(["motionkit", *line]) for line in lines]


def _after_self_play(info: RunInfo) -> list[str]:
    """Return lines for self-play: code that was trusted has to be trusted again."""
    folder, policy = str(info.directory), info.config.get("policy")
    name = policy.get("name") if isinstance(policy, Mapping) else None
    trusted = shlex.split(typed_flags({"policy": policy}))
    chosen = ["--policy", str(name)] if trusted and "--policy" not in trusted else []
    further = ["--config", f"{folder}/config.json", "--policy.checkpoint", folder]
    lines = [
        ["report", folder],
        ["eval", "sa2va", folder, *chosen, *trusted],
        ["sa2va-rl", *further, *shlex.split(typed_flags(info.config))],
    ]
    return [shlex.join(["motionkit", *line]) for line in lines]


def _same_clips(info: RunInfo) -> list[str]:
    """Return the options that give another command the clips of a run, at its rate."""
    data, fps = info.config.get("data"), info.config.get("fps")
    words = [word for name in data if name != "starter" for word in ("--data", str(name))] if data else []
    return [*words, *(["--fps", f"{fps:g}"] if isinstance(fps, (int, float)) and fps != 30 else [])]


_OWN: dict[str, Callable[[RunInfo], list[str]]] = {"train-mpl": _after_predictor, "sa2va-rl": _after_self_play}
