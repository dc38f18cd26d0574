"""`motionkit runs`: list, show, compare, tag and remove runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from motionkit.cli.output import JsonFlag, emit, open_page, say, table, tables, warn, write
from motionkit.errors import MotionkitError
from motionkit.plugins.packages import words

if TYPE_CHECKING:
    from motionkit.runs import RunInfo

Root = Annotated[Path, typer.Option("--root", help="Parent of all runs.", metavar="DIR")]

_RUNS = Path("runs")
_Sort = Literal["created", "reward", "command", "dataset", "name"]
_BLOCKS = 24


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """List runs, show or open one, compare several, tag and remove them."""

    app.command("list")(list_runs)
    app.command("show")(show_run)
    app.command("compare")(compare_runs)
    app.command("open")(open_run)
    app.command("tag")(tag_run)
    app.command("rm")(remove_runs)


def list_runs(
    command: Annotated[str, typer.Argument(help="Only runs of this command.")] = "",
    dataset: Annotated[
        str, typer.Option("--dataset", help="Only runs on data whose name or place holds this.", metavar="WORD")
    ] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only runs with this tag, repeatable.")] = None,
    sort: Annotated[
        _Sort, typer.Option("--sort", help="Order: newest, best reward after training, or by name.")
    ] = "created",
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """List runs with their results, newest first.

    Example: motionkit runs list grpo --tag baseline --sort reward
    """
    from motionkit import runs

    infos = [run for run in runs.find(command or None, root) if dataset.lower() in runs.data_of(run.config).lower()]
    tags = {run.directory: runs.tags_of(run.directory) for run in infos}
    infos = [run for run in infos if set(tag or ()) <= set(tags[run.directory])]
    if sort != "created":  # equal ones stay in the order of their age
        orders: dict[str, Callable[[RunInfo], Any]]
        orders = {
            "reward": _worse,
            "command": lambda run: run.command,
            "dataset": _data,
            "name": lambda run: run.directory.name,
        }
        infos.sort(key=orders[sort])
    if json:
        emit({"command": "runs list", "runs": [_row(run, problem=run.problem) for run in infos]}, json=True)
        return
    if not infos:
        filters = (
            f" that are asked for: {' '.join(filter(None, [command, dataset, *(tag or ())]))}"
            if command or dataset or tag
            else ""
        )
        say(f"no runs under {root}/{filters}.")
        return
    columns: dict[str, list[str]] = {
        "run": [str(run.directory) for run in infos],
        "status": [run.status for run in infos],
        "steps": [_steps(run) for run in infos],
        "result": [run.report.short for run in infos],
        "data": [_data(run) for run in infos],
        "tags": [", ".join(tags[run.directory]) for run in infos],
        "created": [_row(run)["created"][5:] for run in infos],
    }
    if len(set(columns["data"])) < 2:
        del columns["data"]
    if not any(columns["tags"]):
        del columns["tags"]
    table("", list(columns), list(zip(*columns.values(), strict=True)), numbers=(2,))


def show_run(
    run: Annotated[
        str | None, typer.Argument(help="Run folder, or its name or the beginning of it; default: the newest run.")
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Also print every metric of the last step.")] = False,
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """Show one run: its result, its reward curve, its page, and how to go on.

    Example: motionkit runs show
    """
    from motionkit import runs

    info = _newest(root) if run is None else runs.find_one(run, root)
    info = runs.load(info.directory)  # refuses a damaged one, and says why
    last = info.last()
    if json:
        emit(
            {"command": "runs show", **_row(info), "config": info.config, "summary": info.summary, "last": last},
            json=True,
        )
        return
    for key, value in {**_row(info), "steps": _steps(info), "tags": ", ".join(_row(info)["tags"])}.items():
        if value == "" and key in ("data", "tags"):
            continue
        write(f"{key:<8} {value}")
    if info.record and info.record.error:
        write(f"error    {info.record.error}")
    report = info.report
    if report.sentence:
        write(f"result   {report.sentence}")
    _curve(info)
    if (page := info.directory / runs.PAGE).is_file():
        write(f"page     {page}")
    if info.tables:
        write("")
        tables(info.tables)
    elif report.changes:
        write("")
        tables(report.tables())
    if metrics or not report.changes:
        table("Last metrics", ["metric", "value"], sorted(last.items()))
    if info.status != "done":
        write(f"continue with: {runs.next_commands(info)[0]}")
    elif not metrics and report.changes:
        say("every metric of the last step: --metrics")


def open_run(
    run: Annotated[
        str | None, typer.Argument(help="Run folder, or its name or the beginning of it; default: the newest run.")
    ] = None,
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """Open the page of a run in a browser; it is made if there is none yet, and anew while the run goes on.

    Example: motionkit runs open mine
    """
    from motionkit import runs
    from motionkit.report.page import write_report

    info = _newest(root) if run is None else runs.find_one(run, root)
    info = runs.load(info.directory)  # refuses a damaged one
    page = info.directory / runs.PAGE
    if info.status == "running" or not page.is_file():
        page = write_report(info.directory)
    open_page(page)
    if json:
        emit({"command": "runs open", "page": str(page)}, json=True)
        return
    write(str(page))


def tag_run(
    run: Annotated[str, typer.Argument(help="Run folder, or its whole name: the last part, or COMMAND/NAME.")],
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG", help="Tags to add.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="TAG", help="Tag to remove, repeatable.")
    ] = None,
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """Add tags to a run, or remove some; without any it prints those that it has.

    Example: motionkit runs tag mine baseline paper
    """
    from motionkit import runs

    info = runs.peek(runs.to_change(run, root))
    has = runs.change_tags(info.directory, add=tags or (), remove=remove or ())
    if json:
        emit({"command": "runs tag", **_row(info)}, json=True)
        return
    write(f"{info.directory}: {', '.join(has) or 'no tags'}")


def remove_runs(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Run folders, or their whole names: the last part, or COMMAND/NAME."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are listed only.")] = False,
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """Remove runs: everything that motionkit wrote into their folders. Other files stay.

    Example: motionkit runs rm first second --yes
    """
    from motionkit import runs

    infos = {info.directory.resolve(): info for info in (runs.peek(runs.to_change(name, root)) for name in names)}
    rows = []
    for info in infos.values():
        runs.check_removable(info)
        users = [str(path) for path in runs.users_of(info, root) if path.resolve() not in infos]
        used = f"used by {users[0]}{f' and {len(users) - 1} more' if len(users) > 1 else ''}" if users else ""
        megabytes = f"{runs.size_of(info.directory) / 1e6:.1f} MB"
        rows.append((str(info.directory), info.status, info.report.short, megabytes, used))
        if yes and used:
            warn(f"{info.directory} is {used}")
    if not yes:
        if not json:
            table("", ["run", "status", "result", "size", ""], rows, numbers=(3,))
        raise MotionkitError(
            f"nothing was removed: {len(rows)} run{'s' if len(rows) != 1 else ''} would be.",
            why="what is removed does not come back.",
            fix=shlex.join(["motionkit", "runs", "rm", *names, "--yes"]),
        )
    left = {str(info.directory): runs.remove_run(info) for info in infos.values()}
    if json:
        emit(
            {"command": "runs rm", "removed": list(left), "kept": {run: files for run, files in left.items() if files}},
            json=True,
        )
        return
    for run, files in left.items():
        write(f"removed {run}" + (f"; other files stay there: {', '.join(files[:5])}" if files else ""))


def compare_runs(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Two or more runs: folders, or names or their beginnings.")
    ],
    root: Root = _RUNS,
    json: JsonFlag = False,
) -> None:
    """Compare runs: results side by side, and the settings that differ. `motionkit report` makes a page of it.

    Example: motionkit runs compare first second
    """
    from motionkit import runs
    from motionkit.tracking import compared_rows, flatten, measured_apart

    if len(names) < 2:
        raise MotionkitError("runs compare takes two runs or more.", fix="motionkit runs list")
    infos = [runs.load(runs.find_one(name, root).directory) for name in names]
    settings = [flatten(info.config) for info in infos]
    keys = dict.fromkeys(key for values in settings for key in values)
    differing = [
        (key, *(str(values.get(key, "-")) for values in settings))
        for key in keys
        if len({str(values.get(key)) for values in settings}) > 1
    ]
    if json:
        both = [
            {**_row(info), "heldout": info.summary.get("heldout", {}), "chosen_by": info.chosen_by} for info in infos
        ]
        emit({"command": "runs compare", "runs": both, "settings": {key: rest for key, *rest in differing}}, json=True)
        return
    heads = [info.directory.name for info in infos]
    heads = heads if len(set(heads)) == len(heads) else [str(info.directory) for info in infos]
    reports = [info.report for info in infos]
    rows = compared_rows(reports)
    rows.append(("steps", *(_steps(info) for info in infos)))
    if any(info.chosen_by for info in infos):
        rows.append(("policy chosen by", *(info.chosen_by or "-" for info in infos)))
    table("After training (change, verdict)", ["", *heads], rows)
    if apart := measured_apart(reports):
        write(apart)
    if differing:
        table("Settings that differ", ["", *heads], differing)
    say(f"as a page: {shlex.join(['motionkit', 'report', *(str(info.directory) for info in infos)])}", whole=True)


def _newest(root: Path) -> RunInfo:
    from motionkit import runs

    infos = [info for info in runs.find(None, root) if info.status != "damaged"]
    if not infos:
        raise MotionkitError(f"there are no runs under {root}/.", fix=words("first run"))
    return infos[0]


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
    """Return the step of a run; if it is running or was stopped, with the planned steps."""
    if run.status in ("done", "damaged"):
        return str(run.steps)
    step = max(run.steps, int(run.last().get("step", 0)))
    return f"{step}/{run.total_steps}" if run.total_steps else str(step)


def _worse(run: RunInfo) -> tuple[bool, float]:
    """Sort key by the reward after training: the best first, runs without one last."""
    after = next((row.after for row in run.report.changes if row.name == "reward"), None)
    return after is None, -(after or 0.0)


def _data(run: RunInfo) -> str:
    from motionkit.runs import data_of

    return data_of(run.config)


def _row(info: RunInfo, *, problem: str = "") -> dict[str, Any]:
    from motionkit.runs import tags_of

    return {
        "run": str(info.directory),
        "name": info.directory.resolve().name,
        "command": info.command,
        "status": info.status,
        "steps": info.steps,
        "created": info.created.replace("T", " ")[:16],
        "data": _data(info),
        "tags": tags_of(info.directory),
        **({"problem": problem} if problem else {}),
    }
