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
    if (place / "state.json").is_file() and place.parent.name == "checkpoints":
        place = place.parent.parent
    place = place if place.is_dir() else place.parent
    folders = [place / part for part in _PARTS if (place / part / runs.TRAINED_ON).is_file()]
    return TrainedOn.read(folders[0] if folders else None)
