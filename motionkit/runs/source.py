"""What the page of a run is made from: its folder, read as far as it can be read, with what is missing in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from motionkit.runs._listing import RunInfo, peek
from motionkit.tracking import Report

_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ([A-Z]+) (.*)")
_MOST = 4 << 20  # bytes of log.txt that are read, from its end


@dataclass(frozen=True)
class Source:
    """A run folder, read."""

    info: RunInfo  # Its record and settings
    lines: list[dict[str, Any]]  # Of metrics.jsonl
    warnings: list[str]  # Warnings of log.txt, each once
    missing: list[str]  # Sentences about missing parts

    @property
    def name(self) -> str:
        """The run's name: the last part of its folder."""
        return self.info.directory.resolve().name

    @cached_property
    def report(self) -> Report:
        """What was measured before and after; empty for a run that has not finished."""
        return self.info.report

    @property
    def steps(self) -> int:
        """Number of logged or recorded steps."""
        return max([self.info.steps, *(int(line["step"]) for line in self.lines)])


def read_source(path: str | Path) -> Source:
    """Read a run folder."""
    info = peek(path)
    missing = []
    if info.problem:
        missing.append(f"A part of the run is damaged: {info.problem}")
    if info.status == "running":
        missing.append("The run is still going on; motionkit report RUN --watch renews this page until it ends.")
    elif info.status in ("interrupted", "failed"):
        missing.append("The run did not finish, so the final measurement is missing.")
    lines = list(info.metrics())
    missing += _lost_lines(info.directory / "metrics.jsonl", len(lines))
    return Source(info, lines, _warnings(info.directory / "log.txt"), missing)


def not_shown(file: Path) -> str:
    """Return the message for a file of held-out motions that cannot be read."""
    return f"heldout/{file.name} is {'damaged' if file.exists() else 'missing'}, so its motions are not shown."


def _lost_lines(path: Path, read: int) -> list[str]:
    if not path.is_file():
        return ["metrics.jsonl is missing, so there are no curves."]
    with path.open("rb") as file:
        written = sum(1 for _ in file)
    if written > read:
        lines = "1 line" if written - read == 1 else f"{written - read} lines"
        return [f"{lines} of metrics.jsonl cannot be read and {'is' if written - read == 1 else 'are'} left out."]
    return [] if read else ["metrics.jsonl is empty, so there are no curves."]


def _warnings(path: Path) -> list[str]:
    """Return the warnings and errors of a log, each once, in order."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST))
        text = file.read().decode(errors="replace")
    matches = (match for line in text.splitlines() if (match := _LOGGED.fullmatch(line)))
    return list(dict.fromkeys(match[2] for match in matches if match[1] in ("WARNING", "ERROR", "CRITICAL")))
