"""`motionkit runs`: what was run here, what came out of it, how runs compare."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motionkit.cli.output import JsonFlag, emit, say, table, tables, write
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from motionkit.runs import RunInfo

Root = Annotated[Path, typer.Option("--root", help="Parent of all runs.", metavar="DIR")]

_RUNS = Path("runs")
_BLOCKS = 24


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """List runs, show one with its result, compare several."""

    app.command("list")(list_runs)
    app.command("show")(show_run)
    app.command("compare")(compare_runs)


def list_runs(
    command: Annotated[str, typer.Argument(help="Only runs of this command.")] = "",
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """List runs with their results, newest first.

    Example: motionkit runs list grpo
    """
    from motionkit import runs

    found = runs.find(command or None, root)
    if json:
        emit({"command": "runs list", "runs": [_row(run, problem=run.problem) for run in found]}, json=True)
        return
    if not found:
        say(f"no runs under {root}/.")
        return
    rows = [(str(run.directory), run.status, _steps(run), _result(run), _row(run)["created"][5:]) for run in found]
    table("", ["run", "status", "steps", "result", "created"], rows, numbers=(2,))


def show_run(
    run: Annotated[str, typer.Argument(help="Run folder, or the last part of its name; default: the newest run.")] = "",
    metrics: Annotated[bool, typer.Option("--metrics", help="Also print every metric of the last step.")] = False,
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """Show one run: its result, its reward curve, its page, and how to go on.

    Example: motionkit runs show
    """
    from motionkit import runs
    from motionkit.tracking import HELDOUT_TABLES, headline, other_results, result_table, results

    info = runs.find_one(run, root) if run else _newest(root)
    info = runs.load(info.directory)  # refuses a damaged one, and says why
    last = info.last()
    if json:
        emit(
            {"command": "runs show", **_row(info), "config": info.config, "summary": info.summary, "last": last},
            json=True,
        )
        return
    for key, value in {**_row(info), "steps": _steps(info)}.items():
        write(f"{key:<8} {value}")
    if info.record and info.record.error:
        write(f"error    {info.record.error}")
    found = results(info.summary.get("heldout"))
    if sentence := headline(found, other_results(info.summary)):
        write(f"result   {sentence}")
    _curve(info)
    if (page := info.directory / runs.PAGE).is_file():
        write(f"page     {page}")
    if info.tables:
        write("")
        tables(info.tables)
    elif found:
        write("")
        for key, words in HELDOUT_TABLES.items():
            if rows := results(info.summary.get(key)):
                tables(result_table(rows, f"Held out, before and after, {words} ({rows[0].n})"))
    if metrics or not found:
        table("Last metrics", ["metric", "value"], sorted(last.items()))
    if info.status != "done":
        write(f"continue with: {runs.next_commands(info)[0]}")
    elif not metrics and found:
        say("every metric of the last step: --metrics")


def compare_runs(
    names: Annotated[list[str], typer.Argument(metavar="RUN", help="Two or more runs: folders, or last parts.")],
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """Compare runs: results side by side, and the settings that differ. `motionkit report` makes a page of it.

    Example: motionkit runs compare first second
    """
    from motionkit import runs
    from motionkit.tracking import compared_rows, flatten, results

    if len(names) < 2:
        raise MotionkitError("runs compare takes two runs or more.", fix="motionkit runs list")
    infos = [runs.load(runs.find_one(name, root).directory) for name in names]
    settings = [flatten(info.config) for info in infos]
    keys = dict.fromkeys(key for one in settings for key in one)
    differing = [
        (key, *(str(one.get(key, "-")) for one in settings))
        for key in keys
        if len({str(one.get(key)) for one in settings}) > 1
    ]
    if json:
        both = [{**_row(info), "heldout": info.summary.get("heldout", {})} for info in infos]
        emit({"command": "runs compare", "runs": both, "settings": {key: rest for key, *rest in differing}}, json=True)
        return
    heads = [info.directory.name for info in infos]
    heads = heads if len(set(heads)) == len(heads) else [str(info.directory) for info in infos]
    rows = compared_rows([results(info.summary.get("heldout")) for info in infos])
    rows.append(("steps", *(_steps(info) for info in infos)))
    table("After training (change, verdict)", ["", *heads], rows)
    if differing:
        table("Settings that differ", ["", *heads], differing)
    say(f"as a page: {shlex.join(['motionkit', 'report', *(str(info.directory) for info in infos)])}", whole=True)


def _newest(root: Path) -> RunInfo:
    from motionkit import runs

    found = [info for info in runs.find(None, root) if info.status != "damaged"]
    if not found:
        raise MotionkitError(f"there are no runs under {root}/.", fix="motionkit grpo --reward tmr-dense")
    return found[0]


def _curve(info: RunInfo) -> None:
    """Print the reward, or the loss, over the run in a line."""
    from motionkit.tracking import binned, series, sparkline

    lines = list(info.metrics())
    for name, label in {"reward/mean": "reward", "loss/total": "loss"}.items():
        values = [value for _, value in binned(series(lines, name), _BLOCKS)]
        if len(values) > 1:
            write(f"{label:<8} {values[0]:.3f} {sparkline(values)} {values[-1]:.3f}  in training")
            return


def _steps(run: RunInfo) -> str:
    """Return the step of a run; of one that is going on, or was stopped, with the steps that were planned."""
    if run.status in ("done", "damaged"):
        return str(run.steps)
    step = max(run.steps, int(run.last().get("step", 0)))
    return f"{step}/{run.total_steps}" if run.total_steps else str(step)


def _result(run: RunInfo) -> str:
    from motionkit.tracking import other_results, results, short_result

    return short_result(results(run.summary.get("heldout")), other_results(run.summary))


def _row(info: RunInfo, *, problem: str = "") -> dict[str, Any]:
    return {
        "run": str(info.directory),
        "name": info.directory.resolve().name,
        "command": info.command,
        "status": info.status,
        "steps": info.steps,
        "created": info.created.replace("T", " ")[:16],
        **({"problem": problem} if problem else {}),
    }
