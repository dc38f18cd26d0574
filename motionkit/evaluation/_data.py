"""The data that a model is measured on: those that were asked for, else those of the run that made it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.config import Chosen, choose_from_file, choose_one
from motionkit.errors import MotionkitError
from motionkit.evaluation._opened import STARTER, FoundModel, gives_of_model, open_model

_PROTOCOLS = {"predictor": "mpl", "regions": "sa2va"}
"""Protocols of policies that are no text-to-motion policies, by what they give."""


def dataset_for(found: FoundModel, chosen: Chosen | None) -> Chosen:
    """Return the dataset to measure a model on.

    Args:
        found: The model.
        chosen: ``--dataset``; None takes that of the model's run, or the starter's for a model of the starter pack.

    Raises:
        MotionkitError: The model is neither, so that its data must be named.
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


def protocol_of(path: str, names: Sequence[str]) -> str:
    """Return the protocol that suits a model.

    Args:
        path: What was given in place of a name.
        names: Names of the protocols, for messages.

    Raises:
        MotionkitError: It is neither a protocol nor a model.
    """
    if path.partition(":")[0] != STARTER and not Path(path).expanduser().exists():
        raise MotionkitError(
            f"'motionkit eval {path}': that is neither a protocol nor a model.",
            fix=f"{', '.join(names)}; or a run, a folder or a file.",
        )
    if path.startswith(f"{STARTER}:"):
        return "retrieval"
    found = open_model(path)
    protocol = _PROTOCOLS.get(gives_of_model(found))
    if protocol:
        return protocol
    return "retrieval" if found.kind == "rewards" and "evaluator" not in found.what else "text-to-motion"
