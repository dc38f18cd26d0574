"""``motionkit tune``: a search over a trainer's settings, or a change of them by what a run recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from motionkit.cli.commands._tune_settings import TuneBayesSettings
from motionkit.cli.commands.tune_bayes import run_search
from motionkit.cli.settings import add_command, present
from motionkit.config import Resolved
from motionkit.errors import MotionkitError

_WITH_METRICS = ("base", "write_config")
"""Settings of the search that act with ``--metrics`` too."""


def register(app: typer.Typer) -> None:
    """Add the command."""

    def tune(
        settings: TuneBayesSettings,
        *,
        bayes: Annotated[bool, typer.Option("--bayes", help="Search with Optuna; the default.", metavar="")] = False,
        metrics: Annotated[
            Path | None,
            typer.Option(
                "--metrics",
                metavar="RUN",
                help="Adjust settings by the figures of a run of train-mpl, or of a metrics folder of the guide. "
                "--dry-run says what would change, --base FILE is adjusted, --write-config FILE takes the result.",
            ),
        ] = None,
    ) -> None:
        """Search a trainer's settings with Optuna, or adjust them by what a run recorded (--metrics RUN).

        The search is motionkit tune-bayes, whose help says more. --metrics follows the guide's three rules, by figures
        that depend on the model; each change is printed with its evidence, and no schedule goes backwards.
        """

    add_command(app, TuneBayesSettings, _run, "tune", like=tune)


def _run(resolved: Resolved[TuneBayesSettings], dry_run: bool, as_json: bool, arguments: dict[str, Any]) -> None:
    run: Path | None = arguments["metrics"]
    if run is None:
        run_search(resolved, dry_run, as_json, {})
        return
    settings, usual = resolved.settings, TuneBayesSettings()
    fields = [name for name in TuneBayesSettings.model_fields if name not in _WITH_METRICS]
    given = [name for name in fields if getattr(settings, name) != getattr(usual, name)]
    if arguments["bayes"] or given:
        what = "--bayes" if arguments["bayes"] else f"--{given[0].replace('_', '-')}"
        raise MotionkitError(
            f"{what} and --metrics were both given.", why="one searches, the other follows rules.",
            fix="leave one of them out.",
        )  # fmt: skip
    if len(settings.base) > 1:
        raise MotionkitError("--metrics adjusts one file.", fix="give --base once.")
    from motionkit.cli.commands._tune_metrics import run_metrics

    base = settings.base[0] if settings.base else None
    found = run_metrics(run, base=base, write_config=settings.write_config, dry_run=dry_run)
    present("tune", found, as_json=as_json)
