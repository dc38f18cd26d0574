"""The default data to measure and show a run's model on: those it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit.config import Chosen, choose_from_file, choose_one, slot_words
from motionkit.errors import MotionkitError
from motionkit.runs import made_by

if TYPE_CHECKING:
    from motionkit.contracts.open_model import FoundModel

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


def dataset_of(model: str) -> Chosen | None:
    """Return the dataset of the run that made a model; None if there is no run, or it has none."""
    run = made_by(model) if model and model != STARTER else None
    return None if run is None else choose_from_file("datasets", run.config.get("dataset"))


def dataset_for(model: FoundModel, chosen: Chosen | None) -> Chosen:
    """Return the dataset to measure a model on.

    Args:
        model: The model.
        chosen: ``--dataset``; None takes that of the model's run, or the starter's for a model of the starter pack.
    """
    if chosen is not None:
        return chosen
    if model.path.partition(":")[0] == STARTER:
        return choose_one("datasets", STARTER, {})
    table = model.run.config.get("dataset") if model.run is not None else None
    if (named := choose_from_file("datasets", table)) is not None:
        return named
    raise MotionkitError(
        f"{model.path} does not say what data it was trained on.",
        why="only a run of motionkit knows its dataset.",
        fix="--dataset humanml --dataset.root DIR",
    )


def dataset_plan(model: str, chosen: object) -> dict[str, object]:
    """Return the line of a dry run about the dataset to measure a model on: its run's, if it has one.

    Args:
        model: Run, checkpoint or folder of the model.
        chosen: ``--dataset``, if given.
    """
    run = made_by(model) if model and chosen is None else None
    table: Any = run.config.get("dataset") if run is not None else None
    words = slot_words("dataset", table, "datasets")
    return {"data": f"{' '.join(words)} (of the run)"} if words else {}


def episodes_plan(model: str, given: Sequence[str]) -> dict[str, object]:
    """Return the line of a dry run about the episodes to measure a classifier on."""
    run = made_by(model) if model and not given else None
    table = run.config.get("data") if run is not None else None
    places = table.get("path") if isinstance(table, Mapping) else None
    return {"data": f"held-out episodes of {', '.join(map(str, places))}"} if places else {}
