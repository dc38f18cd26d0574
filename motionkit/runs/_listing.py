"""Reading runs that are there: for listings, reports and commands that build on an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit.documents import read_jsonl
from motionkit.runs._folder import is_held, read_record
from motionkit.runs._resume import locate


@dataclass(frozen=True)
class RunInfo:
    """A run folder, read.

    Attributes:
        directory: The folder.
        record: Content of run.json.
        config: Content of config.json.
        status: ``running`` while a process holds it, else ``done``, ``failed`` or ``interrupted`` (also when killed).
    """

    directory: Path
    record: dict[str, Any]
    config: dict[str, Any]
    status: str

    @property
    def command(self) -> str:
        """The command that made it."""
        return str(self.record.get("command", ""))

    @property
    def created(self) -> str:
        """When it was first started, UTC, ISO 8601."""
        return str(self.record.get("created", ""))

    @property
    def summary(self) -> dict[str, Any]:
        """The summary document of its last attempt; empty when it never came to an end."""
        return dict(self.record.get("summary") or {})

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of metrics.jsonl."""
        return read_jsonl(self.directory / "metrics.jsonl")


def load(path: str | Path) -> RunInfo:
    """Read a run from its folder or from a checkpoint inside it.

    Raises:
        MotionkitError: There is no run there.
    """
    directory, _, record, config = locate(path)
    status = str(record.get("status"))
    if status == "running" and not is_held(directory):
        status = "interrupted"
    return RunInfo(directory, record, config, status)


def find(command: str | None = None, root: str | Path = "runs") -> list[RunInfo]:
    """Return the runs under `root`, newest first.

    Args:
        command: Only runs of this command (``grpo``, ``pretrain mdm``); None for all.
        root: Parent of all runs: folders ``<command>/<run>``.
    """
    found = []
    for file in Path(root).glob("*/*/run.json"):
        record = read_record(file.parent)
        if record is None or command not in (None, record.get("command")):
            continue
        if (file.parent / "config.json").is_file():
            found.append(load(file.parent))
    return sorted(found, key=lambda run: (run.created, run.directory.name), reverse=True)
