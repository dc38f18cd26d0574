"""The clips to measure and show a predictor on: those it was trained on, unless others are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.runs import made_by

STARTER = "starter"


def clips_of(model: str, given: Sequence[str], *, flag: str) -> tuple[str, ...]:
    """Return the clips for a motion predictor: the given ones, else its run's, else the starter's.

    Args:
        model: Run, checkpoint or folder of the predictor; empty for none.
        given: The given ones.
        flag: The option that gives them.
    """
    if given:
        return tuple(given)
    run = made_by(model) if model else None
    data = run.config.get("data") if run is not None else None
    if not isinstance(data, list) or not data:
        return (STARTER,)
    for name in map(str, data):
        if name != STARTER and not Path(name).exists():
            raise MotionkitError(
                f"the clips that {model} was trained on are not at {name}.",
                why="they are used by default.",
                fix=f"{flag} FOLDER, or start the command where {name} is.",
            )
    return tuple(map(str, data))


def retarget_of(model: str, given: Sequence[str]) -> str:
    """Return ``--retarget`` for the clips of `clips_of`: that of the run; empty if clips were given."""
    run = made_by(model) if model and not given else None
    return str(run.config.get("retarget") or "") if run is not None else ""
