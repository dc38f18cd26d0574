"""The default data to measure and show a run's model on: those it was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motionkit.config import Chosen, choose_from_file, slot_words
from motionkit.runs import made_by

if TYPE_CHECKING:
    pass

STARTER = "starter"


def dataset_of(model: str) -> Chosen | None:
    """Return the dataset of the run that made a model; None if there is no run, or it has none."""
    run = made_by(model) if model and model != STARTER else None
    return None if run is None else choose_from_file("datasets", run.config.get("dataset"))


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
