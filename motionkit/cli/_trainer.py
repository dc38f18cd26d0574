"""The command of every trainer, of motionkit and of plugins.

Nothing is written until the trainer has opened every input: an error before that exits with 2 and leaves no run folder,
an error after it exits with 1 and leaves a run with the status failed. At its end (`show_end`) a run prints its result,
its reward curve, its page and commands to type next.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from motionkit import plugins
from motionkit.cli import output, own_process
from motionkit.cli._errors import as_motionkit_error, unreadable
from motionkit.cli._places import require_places
from motionkit.cli._stop import ending_together, refuse_unshared
from motionkit.cli.progress import follow
from motionkit.cli.settings import add_command, show_plan
from motionkit.config import Resolved
from motionkit.errors import MotionkitError
from motionkit.training.launch import Launch, launch_of, require_launch
from motionkit.training.settings import TrainerSettings

if TYPE_CHECKING:
    from motionkit.training.execute import Outcome
    from motionkit.training.together import Processes

_CURVES = {"reward/mean": "reward", "loss/total": "loss"}
"""Metrics whose curve is printed at the end of a run, the first that it has."""

_BLOCKS = 24
"""Most points of that curve."""


def trainer_command(name: str, app: typer.Typer) -> None:
    """Register the trainer called `name` on `app`."""
    component = plugins.get("trainers", name)
    model = component.options
    label = name.rpartition(":")[2].replace(".", " ")
    if not issubclass(model, TrainerSettings):
        raise MotionkitError(
            f"the settings of trainer {name!r} are not TrainerSettings.",
            fix="class MySettings(motionkit.training.settings.TrainerSettings): ...",
        )

    def run(resolved: Resolved[TrainerSettings], dry_run: bool, as_json: bool, _: dict[str, Any]) -> None:
        require_launch()
        require_places(resolved.settings)
        _refuse_taken(label, resolved.settings)
        launch = launch_of()
        with ending_together(launch, as_json=as_json) as join:
            begun = time.monotonic()
            output.say(f"{label}: loading torch, data and weights")
            trainer = _opened(label, component, resolved.settings, launch, join)
            trainer.typed = frozenset(key for key, typed in resolved.given.items() if typed)
            trainer.given = frozenset(resolved.given)
            try:
                with plugins.catching():
                    trainer.prepare()
                    plan = trainer.describe() if dry_run else {}
            except OSError as error:  # an input that cannot be read; nothing was started
                raise unreadable(error) from error
            output.say(f"{label}: loaded in {time.monotonic() - begun:.1f} s")
            if dry_run:
                show_plan(label, resolved, plan, as_json=as_json)
                return
            # A setting of the trainers that can check their data.
            if getattr(resolved.settings, "check", False):
                _check(label, trainer, as_json=as_json)
                return
            _train(label, component, trainer, resolved, as_json=as_json)

    add_command(app, model, run, label, help=component.summary)


def _refuse_taken(label: str, settings: TrainerSettings) -> None:
    """Refuse a folder that the run may not take, before anything is imported or opened for it."""
    from motionkit.runs import folder_of, refuse_taken

    place = settings.run
    if place.resume is None and (place.out or place.name):
        refuse_taken(folder_of(label, "runs", place.out, place.name), overwrite=place.overwrite)


def _check(label: str, trainer: Any, *, as_json: bool) -> None:
    """Print the checks of a trainer as they are made; exit with 1 if one fails."""
    checks = []
    with plugins.catching(code=1):
        for check in trainer.check():
            checks.append(check)
            if not as_json:
                output.write(f"{'ok   ' if check.ok else 'fails'} {check.name}: {check.said}")
    bad = [check.name for check in checks if not check.ok]
    document = {
        "command": label,
        "checks": [{"name": check.name, "ok": check.ok, "said": check.said} for check in checks],
    }
    error = MotionkitError(f"{len(bad)} of {len(checks)} checks failed: {', '.join(bad)}.", code=1) if bad else None
    output.finish(document, error, json=as_json)


def _opened(
    label: str,
    component: plugins.Component,
    settings: TrainerSettings,
    launch: Launch,
    join: Callable[[str], Processes],
) -> Any:
    """Build the trainer; of several processes each gets its own device and joins the others."""
    from motionkit.training.execute import build_trainer

    if launch.size == 1:
        return build_trainer(label, component, settings)
    from motionkit.training.together import own_device

    local = settings.model_copy(update={"device": own_device(settings.device, launch)})
    trainer: Any = build_trainer(label, component, local)
    refuse_unshared(label, trainer, launch)
    trainer.world = join(local.device)
    output.say(f"{label}: {launch.size} processes share each step")
    return trainer


def _train(
    label: str, component: plugins.Component, trainer: Any, resolved: Resolved[TrainerSettings], *, as_json: bool
) -> None:
    from motionkit.report.page import run_page
    from motionkit.training.execute import run_trainer

    if own_process.get():
        gc.freeze()  # what is loaded stays: to look for garbage in it takes 0.1 s each time
    try:
        outcome = run_trainer(
            label,
            trainer,
            resolved,
            component=component,
            argv=sys.argv,
            watch=None if launch_of().quiet else lambda run: follow(run, label, trainer.figures),
            page=run_page,
        )
    except OSError as error:
        known = as_motionkit_error(error)
        raise error if known is None else known.as_late() from error
    if not launch_of().quiet:
        show_end(outcome, as_json=as_json)
    output.emit(outcome.document, json=as_json)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def show_end(outcome: Outcome, *, as_json: bool) -> None:
    """Print the tables on stdout, the rest on stderr, and all of it into log.txt."""
    from motionkit.runs import logging_into, next_commands, peek

    with logging_into(outcome.directory):
        output.tables(outcome.table, logged=True)
        if not as_json:
            output.tables(outcome.table)
            if outcome.status == "done":
                _tell(outcome)
        output.say(f"{outcome.status}: {outcome.directory} ({_time(outcome)})")
        if as_json:
            return
        if outcome.page is not None:
            output.say(f"page: {outcome.page}")
        for line in output.as_next(next_commands(peek(outcome.directory))):
            output.say(line, whole=True)


def _tell(outcome: Outcome) -> None:
    from motionkit.runs import peek
    from motionkit.tracking import binned, read_metrics, series, sparkline

    if sentence := peek(outcome.directory).report.sentence:
        output.say(sentence)
    lines = list(read_metrics(outcome.directory / "metrics.jsonl"))
    for name, label in _CURVES.items():
        points = series(lines, name)
        if len(points) >= 2:
            means = binned(points, _BLOCKS)
            first, *_, last = (value for _, value in means)
            block = round(len(points) / len(means))
            span = f"in training, per {block} steps" if block > 1 else "in training"
            output.say(f"{label} {first:.3f} {sparkline([value for _, value in means])} {last:.3f}  {span}")
            return


def _time(outcome: Outcome) -> str:
    from motionkit.page.wording import duration

    seconds = outcome.document.get("seconds")
    steps = outcome.document.get("steps")
    count = "1 step" if steps == 1 else f"{steps} steps"
    return f"{count}, {duration(float(seconds))}" if isinstance(seconds, (int, float)) else count
