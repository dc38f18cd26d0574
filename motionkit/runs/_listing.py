"""Existing runs, read and found: for listings, reports and commands that use an earlier run."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.runs._folder import folder_name, is_held
from motionkit.runs._record import RECORD, RunRecord, read_record
from motionkit.runs._resume import (
    folders_called,
    locate,
    no_run,
    only,
    read_settings,
    refuse_empty,
    run_folder,
    short_name,
)
from motionkit.tracking import Report, last_metrics, read_metrics

_logger = logging.getLogger("motionkit.runs")


@dataclass(frozen=True)
class RunInfo:
    """A run folder, read."""

    directory: Path  # The folder
    # ``running`` while a process holds it, else ``done``, ``failed`` or ``interrupted`` (also if killed); ``damaged``
    # if run.json or config.json cannot be read.
    status: str
    record: RunRecord | None  # Content of run.json; None if it cannot be read
    config: dict[str, Any]  # Content of config.json; empty if the run is damaged
    problem: str = ""  # What is damaged; empty for nothing

    @property
    def command(self) -> str:
        """The command that made it; the name of the folder above if run.json cannot be read."""
        return self.record.command if self.record else self.directory.parent.name

    @property
    def created(self) -> str:
        """Time of its first start, UTC, ISO 8601; empty if run.json cannot be read."""
        return self.record.created if self.record else ""

    @property
    def steps(self) -> int:
        """Steps completed at the end of its last attempt."""
        return self.record.steps if self.record else 0

    @property
    def total_steps(self) -> int | None:
        """Steps planned; None if they are not in the settings."""
        place = self.config.get("run")
        total = place.get("num_steps") if isinstance(place, Mapping) else None
        return total if isinstance(total, int) else None

    def last(self) -> dict[str, Any]:
        """Return the last line of metrics.jsonl, without reading the lines before; empty if there is none."""
        return last_metrics(self.directory / "metrics.jsonl")

    @property
    def summary(self) -> dict[str, Any]:
        """The summary document of its last attempt; empty before its end."""
        return dict(self.record.summary or {}) if self.record else {}

    @property
    def trainer(self) -> plugins.Component | None:
        """The component of its trainer; None if that is not installed or does not work."""
        try:
            return plugins.trainer_of(self.command)
        except MotionkitError:
            return None

    @property
    def report(self) -> Report:
        """What it measured before and after; empty before its end."""
        return Report.of_run(self.summary, self.config, self.trainer)

    @property
    def chosen_by(self) -> str:
        """How the policy that it kept was chosen, such as ``last``; empty if the run does not say so."""
        summary, trainer = self.summary, self.trainer
        if "chosen_by" in summary or trainer is None or not trainer.chosen_by:
            return str(summary.get("chosen_by", ""))
        return str(trainer.imported(trainer.chosen_by)(summary))

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The tables of its result, as on the console; damaged ones are skipped."""
        tables = self.record.tables if self.record else []
        return [
            table for table in tables if isinstance(table.get("columns"), list) and isinstance(table.get("rows"), list)
        ]

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of metrics.jsonl."""
        return read_metrics(self.directory / "metrics.jsonl")


def load(path: str | Path) -> RunInfo:
    """Read a run from its folder or from a checkpoint inside it.

    Example:
        >>> from motionkit.runs import open_run
        >>> with open_run("grpo", {"run": {"name": "first"}}) as run:
        ...     run.log(1, {"reward/mean": 0.5})
        ...     _ = run.finish()
        >>> info = load("runs/grpo/first")
        >>> info.status, [line["reward/mean"] for line in info.metrics()]
        ('done', [0.5])
    """
    directory, _, record, config = locate(path)
    return _known(_info(directory, record, config))


def peek(path: str | Path) -> RunInfo:
    """Read a run as far as possible: a damaged one has the status ``damaged`` and a `problem`."""
    folder = run_folder(path)
    info = _look(folder)
    if info is None:
        raise no_run(Path(path))
    return _known(info)


def _known(info: RunInfo) -> RunInfo:
    """Import the trainer of a run if it is of another package, so that its metrics are defined."""
    with suppress(MotionkitError):
        name = info.command.replace(" ", ".")
        if not plugins.find("trainers", name).builtin:
            plugins.get("trainers", name)
    return info


def made_by(path: str | Path) -> RunInfo | None:
    """Return the run of a model's folder; None if no run made it.

    Args:
        path: A run, a checkpoint of one, or a model's folder in one, such as ``RUN/policy``.
    """
    place = Path(path).expanduser()
    folder = next((path for path in (run_folder(place), place.parent) if (path / RECORD).is_file()), None)
    return None if folder is None else load(folder)


def find_one(name: str | Path, root: str | Path = "runs") -> RunInfo:
    """Find a run to read, by its folder, a checkpoint in it, or its name under `root`: the last part, or COMMAND/NAME.

    If no run has the name, it may be the beginning of one; a line of the log says which. Damaged runs are found too.
    Commands that change a run call `to_change`.
    """
    refuse_empty(name)
    word = str(name).rstrip("/")
    if os.path.lexists(run_folder(name) / RECORD):
        return peek(name)
    if called := folders_called(word, root):
        return peek(only(word, called))
    folders = [info.directory for info in find(None, root)]
    begun = [folder for folder in folders if folder.name.startswith(word) or short_name(folder).startswith(word)]
    if begun:
        folder = only(word, begun)
        _logger.info("%s: %s", word, folder)
        return peek(folder)
    error = no_run(Path(name))
    hint = did_you_mean(word, [folder.name for folder in folders])
    raise MotionkitError(error.message, why=error.why, fix=f"{hint} {error.fix}".strip())


def newest_with(command: str, file: str | Path, root: str | Path = "runs") -> Path | None:
    """Return the newest finished run of a command below `root` that holds `file`; None if there is none."""
    for info in find(command, root):
        if info.status == "done" and (info.directory / file).is_file():
            return info.directory
    return None


def what_is(folder: Path) -> str:
    """Return a description of a folder: ``a run of motionkit COMMAND``, or ``no run``."""
    try:
        return f"a run of motionkit {peek(folder).command}"
    except MotionkitError:
        return "no run"


def find(command: str | None = None, root: str | Path = "runs") -> list[RunInfo]:
    """Return the runs under `root`, newest first, and damaged ones last.

    Args:
        command: Only runs of this command (``grpo``, ``pretrain mdm``); None for all.
        root: Parent of all runs: folders ``<command>/<run>``.
    """
    infos = [info for file in Path(root).glob(f"*/*/{RECORD}") if (info := _look(file.parent)) is not None]
    if command is not None:
        infos = [info for info in infos if info.command == (command if info.record else folder_name(command))]
    return sorted(infos, key=lambda run: (run.status != "damaged", run.created, run.directory.name), reverse=True)


def _look(folder: Path) -> RunInfo | None:
    record = None
    try:
        record = read_record(folder)
        return _info(folder, record, read_settings(folder)) if record else None
    except MotionkitError as error:
        return RunInfo(folder, "damaged", record, {}, error.why)


def _info(folder: Path, record: RunRecord, config: dict[str, Any]) -> RunInfo:
    killed = record.status == "running" and not is_held(folder)
    return RunInfo(folder, "interrupted" if killed else record.status, record, config)
