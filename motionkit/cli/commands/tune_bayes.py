"""``motionkit tune-bayes``, the same as ``motionkit tune --bayes``: a search over a trainer's settings."""

from __future__ import annotations

from typing import Any

import typer

from motionkit.cli.commands._tune_settings import TuneBayesSettings
from motionkit.cli.settings import add_command
from motionkit.config import Resolved


def register(app: typer.Typer) -> None:
    """Add the command."""

    def tune_bayes(settings: TuneBayesSettings) -> None:
        """Search a trainer's settings with Optuna: every trial is a real training run, judged on validation data.

        Trial 0 has the base settings. At the end the winner and the base are trained again with further seeds. Without
        arguments the motion predictor's settings are searched on starter clips, in at most 15 minutes on two cores.
        """

    add_command(app, TuneBayesSettings, run_search, "tune-bayes", like=tune_bayes)


def run_search(resolved: Resolved[TuneBayesSettings], dry_run: bool, as_json: bool, arguments: dict[str, Any]) -> None:
    """Search; the command has no arguments of its own."""
    from motionkit.cli.commands._tune_run import run_tune

    run_tune(resolved, dry_run=dry_run, as_json=as_json)
