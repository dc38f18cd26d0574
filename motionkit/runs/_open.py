"""Opens the run that settings ask for: a new one, or one that goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from motionkit.runs._run import Run


def open_run(
    command: str,
    snapshot: Mapping[str, Any],
    *,
    shape_keys: Sequence[str] = (),
    argv: Sequence[str] = (),
    origins: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
    recorded: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    root: str | Path = "runs",
) -> Run:
    """Create or resume a run by ``snapshot["run"]`` (out, name, overwrite, resume); see `Run.create`, `Run.resume`."""
    place: Mapping[str, Any] = snapshot.get("run") or {}
    if place.get("resume"):
        return Run.resume(
            place["resume"],
            snapshot,
            command=command,
            shape_keys=shape_keys,
            argv=argv,
            origins=origins,
            inputs=inputs,
            recorded=recorded,
        )
    return Run.create(
        command,
        snapshot,
        out=place.get("out"),
        name=place.get("name"),
        overwrite=bool(place.get("overwrite")),
        argv=argv,
        origins=origins,
        inputs=inputs,
        root=root,
    )
