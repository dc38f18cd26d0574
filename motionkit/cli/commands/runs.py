"""`motionkit runs`: what was run here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from motionkit.cli.output import JsonFlag, emit, say, table, write


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """List runs and show one."""

    app.command("list")(list_runs)
    app.command("show")(show_run)


def list_runs(
    command: Annotated[str, typer.Argument(help="Only runs of this command.")] = "",
    root: Annotated[Path, typer.Option("--root", help="Parent of all runs.", metavar="DIR")] = Path("runs"),
    json: JsonFlag = False,
) -> None:
    """List runs, newest first."""
    from motionkit import runs

    found = runs.find(command or None, root)
    if json:
        emit({"command": "runs list", "runs": [_row(run, problem=run.problem) for run in found]}, json=True)
        return
    if not found:
        say(f"no runs under {root}/.")
        return
    columns = ["run", "command", "status", "steps", "created"]
    table("", columns, [[_row(run)[column] for column in columns] for run in found])


def show_run(
    run: Annotated[Path, typer.Argument(help="Run folder, or a checkpoint in it.")], json: JsonFlag = False
) -> None:
    """Show one run: how it went, what it measured last, how to continue it."""
    from motionkit import runs

    info = runs.load(run)
    last: dict[str, Any] = {}
    for line in info.metrics():
        last = line
    if json:
        emit(
            {"command": "runs show", **_row(info), "config": info.config, "summary": info.summary, "last": last},
            json=True,
        )
        return
    for key, value in _row(info).items():
        write(f"{key:<8} {value}")
    if info.record and info.record.error:
        write(f"error    {info.record.error}")
    table("Last metrics", ["metric", "value"], sorted(last.items()))
    if info.status != "done":
        write(f"continue with: {runs.resume_line(info.command, info.directory)}")


def _row(info: Any, *, problem: str = "") -> dict[str, Any]:
    return {
        "run": str(info.directory),
        "command": info.command,
        "status": info.status,
        "steps": info.steps,
        "created": info.created.replace("T", " ")[:16],
        **({"problem": problem} if problem else {}),
    }
