"""Reads existing runs, for listings, reports and commands that use an earlier run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.errors._near import did_you_mean
from motionkit.runs._folder import folder_name
from motionkit.runs._lock import is_held
from motionkit.runs._record import RECORD, RunRecord, read_record
from motionkit.runs._resume import locate, no_run, read_settings, run_folder
from motionkit.tracking import last_metrics, read_metrics


@dataclass(frozen=True)
class RunInfo:
    """A run folder, read.

    Attributes:
        directory: The folder.
        status: ``running`` while a process holds it, else ``done``, ``failed`` or ``interrupted`` (also when killed);
            ``damaged`` when run.json or config.json cannot be read.
        record: Content of run.json; None when it cannot be read.
        config: Content of config.json; empty when the run is damaged.
        problem: What is damaged; empty when nothing is.
    """

    directory: Path
    status: str
    record: RunRecord | None
    config: dict[str, Any]
    problem: str = ""

    @property
    def command(self) -> str:
        """The command that made it; the name of the folder above when run.json cannot be read."""
        return self.record.command if self.record else self.directory.parent.name

    @property
    def created(self) -> str:
        """When it was first started, UTC, ISO 8601; empty when run.json cannot be read."""
        return self.record.created if self.record else ""

    @property
    def steps(self) -> int:
        """Steps completed when its last attempt ended."""
        return self.record.steps if self.record else 0

    @property
    def total_steps(self) -> int | None:
        """Steps planned; None where the settings do not say."""
        place = self.config.get("run")
        total = place.get("num_steps") if isinstance(place, Mapping) else None
        return total if isinstance(total, int) else None

    def last(self) -> dict[str, Any]:
        """Return the last line of metrics.jsonl, without reading what is before; empty where there is none."""
        return last_metrics(self.directory / "metrics.jsonl")

    @property
    def summary(self) -> dict[str, Any]:
        """The summary document of its last attempt; empty when it has not ended."""
        return dict(self.record.summary or {}) if self.record else {}

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The tables of its result, as the console showed them; those that are whole."""
        found = self.record.tables if self.record else []
        return [one for one in found if isinstance(one.get("columns"), list) and isinstance(one.get("rows"), list)]

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of metrics.jsonl."""
        return read_metrics(self.directory / "metrics.jsonl")


def load(path: str | Path) -> RunInfo:
    """Read a run from its folder or from a checkpoint inside it.

    Raises:
        MotionkitError: There is no run there, or it is damaged.

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
    """Read a run as far as it can be read: one that is damaged has the status ``damaged`` and says what is.

    Raises:
        MotionkitError: There is no run there.
    """
    folder = run_folder(path)
    info = _look(folder)
    if info is None:
        raise no_run(Path(path))
    return _known(info)


def _known(info: RunInfo) -> RunInfo:
    """Look up the trainer of a run that another package brings, so that the metrics of its own are defined."""
    with suppress(MotionkitError):
        name = info.command.replace(" ", ".")
        if not plugins.find("trainers", name).builtin:
            plugins.get("trainers", name)
    return info


def made_by(path: str | Path) -> RunInfo | None:
    """Return the run that a model's folder is, or lies in; None where no run made it.

    Args:
        path: A run, a checkpoint of one, or a model's folder in one, such as ``RUN/policy``.

    Raises:
        MotionkitError: The run is damaged.
    """
    place = Path(path).expanduser()
    folder = next((one for one in (run_folder(place), place.parent) if (one / RECORD).is_file()), None)
    return None if folder is None else load(folder)


def find_one(name: str | Path, root: str | Path = "runs") -> RunInfo:
    """Find a run by its folder, a checkpoint in it, or the last part of its folder's name under `root`.

    A name that no run has may be the beginning of one's. Damaged runs are found too.

    Raises:
        MotionkitError: No run has that name, or several have (exit code 2).
    """
    if os.path.lexists(run_folder(name) / RECORD):
        return peek(name)
    wanted = str(name).strip("/")
    known = find(None, root)
    for fits in (str.__eq__, str.startswith):
        found = [info for info in known if fits(info.directory.name, wanted) or fits(_short(info), wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(_short(info) for info in found[:4])
            raise MotionkitError(
                f"{len(found)} runs are called {wanted!r}: {names}{', ...' if len(found) > 4 else ''}.",
                fix=f"name one in full, such as {found[0].directory}",
            )
    error = no_run(Path(name))
    hint = did_you_mean(wanted, [info.directory.name for info in known])
    raise MotionkitError(error.message, why=error.why, fix=f"{hint} {error.fix}".strip())


def _short(info: RunInfo) -> str:
    return f"{info.directory.parent.name}/{info.directory.name}"


def find(command: str | None = None, root: str | Path = "runs") -> list[RunInfo]:
    """Return the runs under `root`, newest first, and damaged ones last.

    Args:
        command: Only runs of this command (``grpo``, ``pretrain mdm``); None for all.
        root: Parent of all runs: folders ``<command>/<run>``.
    """
    found = [info for file in Path(root).glob(f"*/*/{RECORD}") if (info := _look(file.parent)) is not None]
    if command is not None:
        found = [info for info in found if info.command == (command if info.record else folder_name(command))]
    return sorted(found, key=lambda run: (run.status != "damaged", run.created, run.directory.name), reverse=True)


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
