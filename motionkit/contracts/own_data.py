"""The data that a run's model is measured and shown on where none are named: those that it was trained on."""

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
    """Return the clips for a motion predictor: those that were given, else its run's, else the starter's.

    Args:
        model: Run, checkpoint or folder of the predictor; empty for none.
        given: What was given.
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
                why="they are what is used where none are named.",
                fix=f"{flag} FOLDER, or start the command where {name} is.",
            )
    return tuple(map(str, data))


def retarget_of(model: str, given: Sequence[str]) -> str:
    """Return ``--retarget`` for the clips of `clips_of`: that of the run; empty where clips were given."""
    run = made_by(model) if model and not given else None
    return str(run.config.get("retarget") or "") if run is not None else ""


def dataset_of(model: str) -> Chosen | None:
    """Return the dataset of the run that made a model; None where no run did, or it has none."""
    run = made_by(model) if model and model != STARTER else None
    return None if run is None else choose_from_file("datasets", run.config.get("dataset"))


def dataset_for(found: FoundModel, chosen: Chosen | None) -> Chosen:
    """Return the dataset to measure a model on.

    Args:
        found: The model.
        chosen: ``--dataset``; None takes that of the model's run, or the starter's for a model of the starter pack.
    """
    if chosen is not None:
        return chosen
    if found.path.partition(":")[0] == STARTER:
        return choose_one("datasets", STARTER, {})
    table = found.run.config.get("dataset") if found.run is not None else None
    if (named := choose_from_file("datasets", table)) is not None:
        return named
    raise MotionkitError(
        f"{found.path} does not say what data it was trained on.",
        why="only a run of motionkit knows its dataset.",
        fix="--dataset humanml --dataset.root DIR",
    )


def dataset_plan(model: str, chosen: object) -> dict[str, object]:
    """Return the line of a dry run that says which dataset a model will be measured on: its run's, if it has one.

    Args:
        model: Run, checkpoint or folder of the model.
        chosen: ``--dataset``, where it was given.
    """
    run = made_by(model) if model and chosen is None else None
    table: Any = run.config.get("dataset") if run is not None else None
    words = slot_words("dataset", table, "datasets")
    return {"data": f"{' '.join(words)} (of the run)"} if words else {}


def episodes_plan(model: str, given: Sequence[str]) -> dict[str, object]:
    """Return the line of a dry run that says which episodes a classifier will be measured on."""
    run = made_by(model) if model and not given else None
    table = run.config.get("data") if run is not None else None
    places = table.get("path") if isinstance(table, Mapping) else None
    return {"data": f"held-out episodes of {', '.join(map(str, places))}"} if places else {}
