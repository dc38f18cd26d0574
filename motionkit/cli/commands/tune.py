"""``motionkit tune``: a search over a trainer's settings, or a change of them by what a run recorded.

The search is that of `motionkit.cli.commands.tune_bayes`. ``--metrics RUN`` is answered by the trainer that adjusts its
settings so (`Component.adjust`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from motionkit import plugins
from motionkit.cli._command import present
from motionkit.cli.commands.tune_bayes import run_search
from motionkit.cli.settings import add_command
from motionkit.config import Resolved
from motionkit.errors import MotionkitError
from motionkit.plugins.packages import words
from motionkit.runs import peek
from motionkit.tuning.settings import TuneBayesSettings

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
                help=f"Adjust settings by the figures of {words('a run that adjusts') or 'a run'}. "
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
        flag = "--bayes" if arguments["bayes"] else f"--{given[0].replace('_', '-')}"
        raise MotionkitError(
            f"{flag} and --metrics were both given.", why="one searches, the other follows rules.",
            fix="leave one of them out.",
        )  # fmt: skip
    if len(settings.base) > 1:
        raise MotionkitError("--metrics adjusts one file.", fix="give --base once.")

    base = settings.base[0] if settings.base else None
    document = _adjuster(run)(run, base=base, write_config=settings.write_config, dry_run=dry_run)
    present("tune", document, as_json=as_json)


def _adjuster(run: Path) -> Callable[..., Mapping[str, Any]]:
    """Return what adjusts settings by a run: its trainer's own way, else the one that motionkit has."""
    component = plugins.trainer_of(peek(run).command) if (run / "run.json").is_file() else None
    if component is not None and component.adjust:
        return cast(Callable[..., Mapping[str, Any]], component.imported(component.adjust))
    (usual,) = plugins.named("adjust")
    return cast(Callable[..., Mapping[str, Any]], usual)
