"""``motionkit tune --bayes``: a search over a trainer's settings."""

from __future__ import annotations

from typing import Annotated

import typer

from motionkit.cli.commands._tune_settings import TuneBayesSettings
from motionkit.cli.commands.tune_bayes import _run
from motionkit.cli.settings import add_command


def register(app: typer.Typer) -> None:
    """Add the command."""

    def tune(
        settings: TuneBayesSettings,
        bayes: Annotated[bool, typer.Option("--bayes", help="Search with Optuna; the default.", metavar="")] = True,
    ) -> None:
        """Search a trainer's settings with Optuna: every trial is a real training run, judged on validation data.

        The same as motionkit tune-bayes, whose help says more.
        """

    add_command(app, TuneBayesSettings, _run, "tune-bayes", like=tune)
