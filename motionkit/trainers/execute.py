"""Running a trainer: open its run folder, train, finish. The command line, searches and tests call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import Resolved, TrainerSettings
from motionkit.runs import Run, open_run
from motionkit.trainers.base import Trainer


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        document: The summary document of ``--json``.
        table: Title, columns and rows of the table for people, or None.
        directory: The run folder.
        status: ``done`` or ``interrupted``; a run that fails raises.
        exit_code: 0, or 130 and 143 when a signal stopped it.
    """

    document: Mapping[str, Any]
    table: Mapping[str, Any] | None
    directory: Path
    status: str
    exit_code: int


def run_trainer(
    command: str,
    trainer: Trainer,
    resolved: Resolved[TrainerSettings],
    *,
    argv: Sequence[str] = (),
    watch: Callable[[Run], AbstractContextManager[object]] | None = None,
) -> Outcome:
    """Train in a new run folder, or in the one that ``run.resume`` names.

    Args:
        command: The trainer's command, such as ``pretrain mdm``.
        trainer: A trainer whose `prepare` is done, so that bad inputs leave no folder behind.
        resolved: Its settings and their origins.
        argv: The command line, for the record.
        watch: Makes a context around the training that follows the run, such as a progress bar.

    Raises:
        MotionkitError: The folder is refused (exit code 2), or the training fails (exit code 1); the run says so.
    """
    run = open_run(
        command,
        resolved.snapshot(),
        shape_keys=trainer.shape_keys,
        argv=argv,
        origins=resolved.origins,
        inputs=getattr(trainer, "inputs", None),
    )
    run.total_steps = run.total_steps or resolved.settings.run.num_steps
    with run, watch(run) if watch is not None else nullcontext(), plugins.catching(code=1):
        parts = dict(trainer.train(run))
        table = parts.pop("table", None)
        document = run.finish(parts)
    return Outcome(document, table if isinstance(table, Mapping) else None, run.directory, run.status, run.exit_code)
