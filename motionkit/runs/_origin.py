"""Records the environment of a run: time, versions, plugin packages; and lists changed versions."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from datetime import UTC, datetime

from motionkit.plugins import scan

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
    """Return the packages that bring motionkit plugins, with versions."""
    return dict(sorted({entry.distribution: entry.version for entry in scan().entries}.items()))


def changed_versions(before: Mapping[str, str]) -> list[str]:
    """Return ``torch 2.12.0, now 2.13.0`` for each package of `before` whose version has changed.

    Packages that are missing now, or were missing then, are left out: results do not depend on them.
    """
    here = {**plugin_distributions(), **versions()}
    return [
        f"{name} {old}, now {here[name]}"
        for name, old in before.items()
        if name != "platform" and here.get(name, old) != old
    ]
