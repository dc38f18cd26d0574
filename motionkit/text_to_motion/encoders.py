"""Folders of TMR and of the evaluator: their weights by component, and the error for a run that has none."""

from __future__ import annotations

import shlex
from pathlib import Path

from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.runs import TENSORS, load
from motionkit.runs.forms import encoder_weights


def read_encoder(folder: Path) -> dict[str, dict[str, Tensor]]:
    """Return the tensors of an encoder's folder, float32, by component: the first part of their names."""
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in (weights.find_tensors(weights.read(encoder_weights(folder) or folder / TENSORS)) or {}).items():
        name, _, tensor = key.partition(".")
        parts.setdefault(name, {})[tensor] = value.float()
    return parts


def without_encoder(run: Path, what: str, command: str, fix: str) -> MotionkitError:
    """Return the error for a run that holds no encoder.

    Args:
        run: Its folder.
        what: The encoder, such as ``TMR``.
        command: The command whose runs have one from their first checkpoint on.
        fix: Advice for a run of another command.
    """
    info = load(run)
    if info.command != command:
        return MotionkitError(f"{run} is a run of `motionkit {info.command}`, which trains no {what}.", fix=fix)
    return MotionkitError(
        f"the run {run} has no {what} yet.",
        why="it has no checkpoint.",
        fix=f"motionkit {command} --resume {shlex.quote(str(run))}",
    )
