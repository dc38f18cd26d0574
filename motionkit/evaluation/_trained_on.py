"""What a model was trained on, wherever it lies: evaluations leave it out."""

from __future__ import annotations

from pathlib import Path

from motionkit import runs
from motionkit.evaluation._opened import STARTER
from motionkit.runs import TrainedOn

_PARTS = ("policy", "tmr", "evaluator", "encoder", "")
"""Folders of a run that hold a model; an empty name is a model's own folder."""


def trained_on(path: str) -> TrainedOn:
    """Return what the model of a path was trained on.

    Args:
        path: ``starter``, whose clips are made by code and never held out from others; a run, one of its checkpoints,
            a model's folder or a file in it.

    Raises:
        MotionkitError: The record beside the model is damaged.
    """
    if path.partition(":")[0] == STARTER:
        return TrainedOn()
    place = Path(path).expanduser()
    if not path or not place.exists():
        return TrainedOn.unknown()
    parts: tuple[str, ...] = _PARTS
    if not place.is_dir():
        place, parts = place.parent, ("",)
    if (place / "state.json").is_file() and place.parent.name == "checkpoints":
        place, parts = place.parent.parent, _PARTS
    folders = [place / part for part in parts if (place / part / runs.TRAINED_ON).is_file()]
    return TrainedOn.read(folders[0] if folders else None)
