"""run.json: where a run came from and how it went."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from motionkit.runs._atomic import write_json
from motionkit.runs._folder import KIND, RECORD
from motionkit.tracking import finite

_PACKAGES = ("motionkit", "torch", "numpy", "safetensors", "pydantic", "peft", "transformers", "accelerate")


def now() -> str:
    """Return the time in UTC, ISO 8601, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that decide numbers."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def plugin_distributions() -> dict[str, str]:
    """Return the distributions that bring motionkit plugins, with versions; unreadable ones are left out."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        try:
            if any(entry.group.startswith("motionkit.") for entry in distribution.entry_points):
                found[distribution.metadata["Name"]] = distribution.version
        except Exception:
            continue
    return dict(sorted(found.items()))


def git_state(folder: Path) -> dict[str, object] | None:
    """Return commit and dirtiness of the git work tree around `folder`, or None when there is none."""

    def ask(*arguments: str) -> str | None:
        try:
            answer = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    return None if commit is None else {"commit": commit, "dirty": bool(ask("status", "--porcelain"))}


class Record:
    """run.json: where a run came from, each attempt at it, how it ended. Kept in memory, written whole.

    Args:
        directory: The run folder.
        content: Content of an existing run.json, or what `new_record` returned.
    """

    def __init__(self, directory: Path, content: dict[str, Any]) -> None:
        self.content = content
        self.path = directory / RECORD

    def begin(
        self, snapshot: Mapping[str, Any], argv: Sequence[str], origins: Mapping[str, str] | None, step: int
    ) -> None:
        """Note an attempt that starts after `step`, and write."""
        for stale in ("summary", "error", "exit_code"):
            self.content.pop(stale, None)
        self.content |= {
            "argv": list(argv),
            "seed": snapshot.get("seed"),
            "device": snapshot.get("device"),
            "status": "running",
            "versions": versions(),
            "plugins": plugin_distributions(),
            "git": git_state(Path.cwd()),
            "executable": sys.executable,
            "origins": dict(origins or {}),
        }
        self.content["attempts"].append(
            {
                "argv": list(argv),
                "start": now(),
                "start_step": step,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "cwd": str(Path.cwd()),
                "status": "running",
            }
        )
        self.write()

    def end(self, summary: Mapping[str, Any], exit_code: int) -> None:
        """Note how the attempt ended, and write."""
        how = {"status": summary["status"], "exit_code": exit_code}
        self.content |= {key: summary[key] for key in ("steps", "seconds", "cpu_seconds")} | how | {"summary": summary}
        self.content["attempts"][-1] |= {"end": now(), "end_step": summary["steps"], **how}
        self.write()

    def write(self) -> None:
        """Write run.json aside and rename it into place."""
        write_json(self.path, finite(self.content))


def new_record(command: str) -> dict[str, Any]:
    """Return the record of a run that has not begun."""
    return {
        "schema": 1,
        "kind": KIND,
        "id": secrets.token_hex(8),
        "command": command,
        "created": now(),
        "artifacts": [],
        "attempts": [],
    }
