"""The test split: what every evaluation that opens it says and notes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from motionkit.cli import command_line
from motionkit.cli.output import say, warn
from motionkit.runs import RunInfo, note_test_split


def tell_test_split(split: str, made: Iterable[RunInfo | None]) -> None:
    """Note in runs that their test split is opened, and say so; nothing for other splits.

    Args:
        split: What is measured on.
        made: The run of each model, None where no run made it.
    """
    command = shlex.join(["motionkit", *command_line.get()])
    for run in made if split == "test" else ():
        if run is None:
            continue
        if problem := note_test_split(run.directory, command):
            warn(f"the test split is opened, which could not be noted in the run: {problem}")
        else:
            say(f"the test split is opened; noted in {run.directory / 'run.json'}")
