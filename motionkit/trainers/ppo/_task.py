"""Whether a classifier judges the task that a policy is trained on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from motionkit.datasets.episodes import task_of
from motionkit.environments.reach._settings import as_recorded
from motionkit.errors import MotionkitError


def compare_environments(trained: Mapping[str, Any], own: Mapping[str, Any], place: str) -> str:
    """Return what a user should know of a classifier in an environment; empty where it is the one of its data.

    Args:
        trained: ``spec`` of the environment that the classifier's frames were made with; empty where it is not known.
        own: That of this run.
        place: Where the classifier is from.

    Raises:
        MotionkitError: They are two tasks.
    """
    theirs, here = task_of(trained), task_of(own)
    if theirs and theirs != here:
        words = ["--env", str(trained["name"]), *(("--env.id", str(trained["id"])) if trained.get("id") else ())]
        raise MotionkitError(
            f"the classifier of {place} was trained on frames of {theirs}, and the environment of this run is {here}.",
            why="a success of one task is not a success of another, even where cameras have the same names and sizes.",
            fix=f"{shlex.join(words)}, or a classifier that was trained on frames of {here}.",
        )
    if not theirs:
        return f"it is not known what environment the classifier of {place} was trained on: this run's is {here}."
    trained, own = as_recorded(trained), as_recorded(own)
    odd = [f"{key} {trained[key]}, not {own[key]}" for key in trained if key in own and trained[key] != own[key]]
    return f"the classifier's frames were made with other options of {here}: {'; '.join(odd)}." if odd else ""
