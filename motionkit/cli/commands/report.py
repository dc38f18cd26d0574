"""``motionkit report RUN...``: the page of a run, or one that compares several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motionkit.cli._streams import flush
from motionkit.cli.output import JsonFlag, emit, write
from motionkit.errors import MotionkitError

_COMPARISON = "comparison.html"


def _at_once(line: str) -> None:
    """Print a line and flush it, so that a reader of a pipe gets it while the command runs."""
    write(line)
    flush()


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def report(
        runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Run folders, or the last part of their names.")],
        out: Annotated[
            Path | None,
            typer.Option(
                "--out",
                metavar="FILE",
                help="File to write; default: report.html in the run folder, for several runs comparison.html in a "
                "new folder under runs/report.",
            ),
        ] = None,
        watch: Annotated[
            bool, typer.Option("--watch", help="Renew the page while the run goes on, also in an open browser.")
        ] = False,
        json: JsonFlag = False,
    ) -> None:
        """Write the page of a run: result, motions before and after, curves, alarms, settings. One file, no network.

        Every run makes its page when it ends; this makes it again, or for a run that is still going on or was stopped.
        With several runs it writes one page that compares them. --watch makes it again whenever the run has written
        something, until the run ends or Ctrl-C.

        Example: motionkit report runs/grpo/first runs/grpo/second
        """
        from motionkit.report.page import write_comparison, write_report
        from motionkit.report.watch import watch_report
        from motionkit.runs import find_one, folder_of

        if out is not None and out.is_dir():
            raise MotionkitError(f"--out {out} is a folder.", fix=f"--out {out / 'report.html'}")
        if watch and len(runs) > 1:
            raise MotionkitError(
                f"--watch follows one run, and {len(runs)} were named.",
                fix="name one, or leave --watch out: one page then compares them.",
            )
        folders = [find_one(run).directory for run in runs]
        if watch:
            path = watch_report(folders[0], out, (lambda line: None) if json else _at_once)
        elif len(folders) == 1:
            path = write_report(folders[0], out)
        else:
            path = write_comparison(folders, out or folder_of("report", "runs", None, None) / _COMPARISON)
        if json:
            emit({"command": "report", "status": "done", "page": str(path)}, json=True)
        elif not watch:
            write(str(path))
