"""Running a trainer: open its run folder, train, finish. The command line, searches and tests call it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import Resolved, as_recorded
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.runs import PAGE, Run, open_run, write_bytes_atomic
from motionkit.tracking import MAIN, Report
from motionkit.training.base import Trainer
from motionkit.training.device import matmul_in_use
from motionkit.training.settings import TrainerSettings
from motionkit.training.world import OneProcess, asked_to_stop, open_together

_logger = logging.getLogger("motionkit.trainers")


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    document: Mapping[str, Any]  # the summary document of ``--json``
    table: Sequence[Mapping[str, Any]]  # title, columns and rows of the table for people, or several such
    directory: Path  # the run folder
    status: str  # ``done`` or ``interrupted``; a run that fails raises
    exit_code: int  # 0, or 130 and 143 when a signal stopped it
    page: Path | None = None  # the page of the run, also of an interrupted one


def build_trainer(command: str, component: Component, settings: TrainerSettings) -> Trainer:
    """Build the trainer of `command`, which must have the methods and attributes of `training.base.Trainer`."""
    trainer: Trainer = component.build(settings)
    missing = plugins.missing(trainer, ("prepare", "describe", "train"), ("settings", "shape_keys"))
    if missing:
        package = plugins.package_of(component.factory.partition(":")[0])
        raise MotionkitError(
            f"trainer {command!r} has no {plugins.either(missing).replace(' or ', ' and ')}.",
            why=f"{component.factory} must follow motionkit.training.base.Trainer, which describes each of them.",
            fix=f"add {'it' if len(missing) == 1 else 'them'}{f', or update {package}' if package else ''}; "
            "motionkit plugins new trainer NAME writes one that works.",
        )
    return plugins.complete(trainer, Trainer)


def run_trainer(
    command: str,
    trainer: Trainer,
    resolved: Resolved[TrainerSettings],
    *,
    component: Component | None = None,
    argv: Sequence[str] = (),
    watch: Callable[[Run], AbstractContextManager[object]] | None = None,
    page: Callable[[Path], str] | None = None,
) -> Outcome:
    """Train in a new run folder, or in the one that ``run.resume`` names.

    Of several processes the main one writes; all stop and fail together.

    Args:
        command: The trainer's command, such as ``pretrain mdm``.
        trainer: A trainer whose `prepare` is done, so that bad inputs leave no folder behind.
        resolved: Its settings and their origins.
        component: The trainer's entry, for the page that it may name.
        argv: The command line, for the record.
        watch: Makes a context around the training that follows the run, such as a progress bar.
        page: Makes the page of a run from its folder if `component` names none, or if the run was interrupted:
            `motionkit.report.page.run_page` is above this package, so the caller passes it in.
    """
    world, snapshot, origins = trainer.world or OneProcess(), resolved.snapshot(), dict(resolved.origins)
    found = trainer.settled
    if found:
        settings = trainer.settings.model_dump(mode="json")
        snapshot |= {name: settings[name] for name in {key.partition(".")[0] for key in found}}
        origins |= found

    def opened() -> Run:
        return open_run(
            command,
            snapshot,
            shape_keys=trainer.shape_keys,
            argv=argv,
            origins=origins,
            inputs=trainer.inputs,
            recorded=partial(as_recorded, type(trainer.settings)),
        )

    run = open_together(command, snapshot, opened, world)
    run.total_steps = run.total_steps or trainer.settings.run.num_steps  # as `prepare` settled it
    log = str(run.directory / "log.txt")
    with run, watch(run) if watch is not None else nullcontext(), plugins.catching(code=1, log=log):
        run.annotate(cpu_matmul=matmul_in_use(), processes=world.size)
        parts = dict(trainer.train(run))
        value = parts.pop("table", None)
        values = value if isinstance(value, (list, tuple)) else [value]
        tables = [table for table in values if isinstance(table, Mapping) and {"columns", "rows"} <= table.keys()]
        if not tables and (rows := (report := Report(parts.get(MAIN), trainer=component)).changes):
            tables = [report.table(f"Before and after, {rows[0].n} held out")]
        run.annotate(tables=[_stored(table) for table in tables])
        asked_to_stop(run, world)
        document = run.finish(parts)
        written = _write_page(component, page, run) if world.main else None
    return Outcome(document, tables, run.directory, run.status, run.exit_code, written)


def _stored(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table as stored in run.json."""
    rows = [[cell if isinstance(cell, (int, float, str)) else str(cell) for cell in row] for row in table["rows"]]
    title, columns = str(table.get("title", "")), [str(column) for column in table["columns"]]
    return {"title": title, "columns": columns, "rows": rows, "numbers": list(table.get("numbers", ()))}


def _write_page(component: Component | None, page: Callable[[Path], str] | None, run: Run) -> Path | None:
    """Write the page of a run into its folder; if that fails, warn and return None.

    That of an interrupted run is always the common one: a trainer's own may need its final figures.
    """
    named = component.page if component is not None and run.status == "done" else ""
    if not named and page is None:
        return None
    try:
        with plugins.catching(named.partition(":")[0], code=1):
            make: Any = component.page_maker() if component is not None and named else page
            text = make(run.directory).encode(errors="replace")
            path = run.artifact(PAGE)
            write_bytes_atomic(path, text)
            return path
    except (Exception, SystemExit) as error:
        _logger.warning("no page was written for %s: %s", run.directory, plugins.in_words(error))
        return None
