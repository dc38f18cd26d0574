"""``motionkit tune-bayes``, the same as ``motionkit tune --bayes``: a search over a trainer's settings.

The command opens the study of its settings, asks it, and prints the answer.
"""

from __future__ import annotations

import shlex
import time
from typing import Any

import typer

from motionkit.cli import output
from motionkit.cli._errors import unreadable
from motionkit.cli.settings import add_command, show_plan
from motionkit.config import Resolved
from motionkit.runs import PAGE, logging_into
from motionkit.tuning.settings import TuneBayesSettings


def register(app: typer.Typer) -> None:
    """Add the command."""

    def tune_bayes(settings: TuneBayesSettings) -> None:
        """Search a trainer's settings with Optuna: every trial is a real training run, judged on validation data.

        Trial 0 has the base settings. At the end the winner and the base are trained again with further seeds. Without
        arguments the motion predictor's settings are searched on starter clips, in at most 15 minutes on two cores.
        """

    add_command(app, TuneBayesSettings, run_search, "tune-bayes", like=tune_bayes)


def run_search(resolved: Resolved[TuneBayesSettings], dry_run: bool, as_json: bool, arguments: dict[str, Any]) -> None:
    """Search and print the answer; the command has no arguments of its own."""
    from motionkit.tuning.study import COMMAND, open_study

    begun = time.monotonic()
    output.say(f"{COMMAND}: loading the settings of {resolved.settings.trainer}, torch and data")
    try:
        study = open_study(resolved, output.say)
    except OSError as error:
        raise unreadable(error) from error
    output.say(f"{COMMAND}: loaded in {time.monotonic() - begun:.1f} s")
    if dry_run:
        show_plan(COMMAND, resolved, study.facts(), as_json=as_json)
        return
    answer = study.ask(resolved, output.say)
    with logging_into(study.folder):
        if not as_json:
            output.tables(answer.tables)
        for line in answer.lines:
            output.say(line)
        for line in answer.changes:
            output.say(f"  {line}", whole=True)
        if answer.next:
            output.say(f"page: {study.folder / PAGE}")
        for line in output.as_next([shlex.join(["motionkit", *words]) for words in answer.next]):
            output.say(line, whole=True)
    if answer.document is not None:
        output.emit(answer.document, json=as_json)
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)
