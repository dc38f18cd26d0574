"""What run.json says about where a run came from."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

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


def attempt(argv: list[str], start_step: int) -> dict[str, object]:
    """Return the record of an attempt that begins now."""
    return {
        "argv": argv,
        "start": now(),
        "start_step": start_step,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "cwd": str(Path.cwd()),
        "status": "running",
    }


def provenance(origins: dict[str, str]) -> dict[str, object]:
    """Return versions, plugins, code state and the origin of each setting."""
    return {
        "versions": versions(),
        "plugins": plugin_distributions(),
        "git": git_state(Path.cwd()),
        "executable": sys.executable,
        "origins": origins,
    }
