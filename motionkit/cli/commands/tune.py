"""``motionkit tune``: a search over a trainer's settings, or a change of them by what a run recorded.

The search is that of `motionkit.cli.commands.tune_bayes`. ``--metrics RUN`` applies the guide's rules to the figures of
a run (`run_metrics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from motionkit.cli._command import present
from motionkit.cli.commands.tune_bayes import TuneBayesSettings, run_search
from motionkit.cli.settings import add_command
from motionkit.config import Resolved
from motionkit.errors import MotionkitError

_WITH_METRICS = ("base", "write_config")
"""Settings of the search that act with ``--metrics`` too."""


def run_metrics(
    run: Path, *, base: Path | None = None, write_config: Path | None = None, dry_run: bool = False
) -> Mapping[str, Any]:
    """Adjust settings by the recorded figures of a run.

    Args:
        run: Run of train-mpl, or a metrics folder, the guide's included.
        base: Settings file to adjust; by default the run's own settings.
        write_config: File that the result is written into; nothing is written without it.
        dry_run: Only list the changes.

    Returns:
        The document of the command, with ``table`` and ``closing`` for people; see `motionkit.cli._command.present`.
    """
    from motionkit.tuning.recorded import apply_rules, open_recorded, write_adjusted

    recorded = open_recorded(run, base)
    adjusted = apply_rules(recorded)
    rows = recorded.rows(adjusted.changes)
    lasting = [f"long runs, which no rule reads: {text}" for text in recorded.long]
    closing = [*adjusted.notes, *lasting, f"figures of {recorded.metrics}, settings of {recorded.base}"]
    written = None
    if not rows:
        closing.append("nothing to change: no figure that depends on the model is too high.")
    elif write_config is None or dry_run:
        closing.append("nothing was written" + ("." if dry_run else "; --write-config FILE writes the result."))
    else:
        closing.append(write_adjusted(write_config, recorded, adjusted))
        written = str(write_config)
    return {
        "metrics": str(recorded.metrics),
        "base": str(recorded.base),
        "changes": [
            {"key": key, "before": before, "after": after, "evidence": evidence}
            for key, before, after, evidence in rows
        ],
        "notes": list(adjusted.notes),
        "long_alarms": list(recorded.long),
        "stages": adjusted.stages if adjusted.staged else [],
        "written": written,
        "table": {
            "title": f"{len(rows)} changes",
            "columns": ["setting", "before", "after", "evidence"],
            "rows": [(key, f"{before:g}", f"{after:g}", evidence) for key, before, after, evidence in rows],
        }
        if rows
        else None,
        "closing": closing,
    }


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
        flag = "--bayes" if arguments["bayes"] else f"--{given[0].replace('_', '-')}"
        raise MotionkitError(
            f"{flag} and --metrics were both given.", why="one searches, the other follows rules.",
            fix="leave one of them out.",
        )  # fmt: skip
    if len(settings.base) > 1:
        raise MotionkitError("--metrics adjusts one file.", fix="give --base once.")

    base = settings.base[0] if settings.base else None
    document = run_metrics(run, base=base, write_config=settings.write_config, dry_run=dry_run)
    present("tune", document, as_json=as_json)
