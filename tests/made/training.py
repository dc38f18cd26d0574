"""Runs of a trainer in a test."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from motionkit.config import as_recorded
from motionkit.runs import Run


def run_trainer(
    make: Callable[[Any], Any], command: str, config: Any, out: Path | None, *, stop_after: int = 0
) -> tuple[Any, Mapping[str, Any]]:
    """Train, or resume where the settings say so; `stop_after` ends it at that step as SIGTERM does."""
    trainer = make(config)
    trainer.prepare()
    if config.run.resume:
        recorded = partial(as_recorded, type(config))
        snapshot = config.model_dump(mode="json")
        run = Run.resume(config.run.resume, snapshot, shape_keys=trainer.shape_keys, recorded=recorded)
    else:
        run = Run.create(command, config.model_dump(mode="json"), out=out)
    if stop_after:
        run.listeners.append(lambda step, _: setattr(run.signals, "received", 15) if step >= stop_after else None)
    with run:
        parts = trainer.train(run)
        run.finish(parts)
    return trainer, parts


def run_in_parts(
    make: Callable[[Any], Any], command: str, config: Any, out: Path, *, stop_after: int
) -> tuple[Any, Mapping[str, Any]]:
    """Train until a step, as SIGTERM ends it, and resume to the end; returns what the second part gave."""
    run_trainer(make, command, config, out, stop_after=stop_after)
    rest = config.run.model_copy(update={"resume": out, "out": None})
    return run_trainer(make, command, config.model_copy(update={"run": rest}), out)


def metric_lines(folder: Path) -> list[dict[str, float]]:
    """The metrics of a run without how long they took."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in found]
