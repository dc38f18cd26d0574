"""The contract of a trainer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from motionkit.config import Resolved
from motionkit.runs import Run
from motionkit.testing._component import Findings, check_component, options_of
from motionkit.training.execute import build_trainer, run_trainer
from motionkit.training.settings import TrainerSettings


def check_trainer(name: str, folder: Path, *, settings: dict[str, Any] | None = None) -> Mapping[str, Any]:
    """Check what ``motionkit <trainer>`` relies on, by a run with `settings`.

    Its settings extend `TrainerSettings`; preparing creates no run folder; its plan and its result are JSON-able; it
    logs every step under defined names and leaves a checkpoint of the last step.

    Args:
        name: Name of the trainer.
        folder: Empty folder to run in.
        settings: Settings that make it quick.

    Returns:
        The summary document of the run.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    component = check_component("trainers", name)
    findings = Findings(f"trainer {name!r}")
    if not findings.expect(issubclass(component.options, TrainerSettings), "Its settings must extend TrainerSettings."):
        findings.close()
    chosen = options_of(component, settings)
    trainer = build_trainer(name, component, chosen)
    findings.expect(
        isinstance(getattr(trainer, "shape_keys", None), tuple), "It needs 'shape_keys', a tuple of settings."
    )
    trainer.prepare()
    findings.expect(not any(folder.iterdir()), "prepare() must not write anything.")
    try:
        json.dumps(dict(trainer.describe()))
    except TypeError as error:
        findings.expect(False, f"describe() is not JSON-able: {error}")
    placed = chosen.model_copy(update={"run": chosen.run.model_copy(update={"out": folder / "run"})})
    steps: list[int] = []

    def watch(run: Run) -> AbstractContextManager[None]:
        run.listeners.append(lambda step, metrics: steps.append(step))
        return nullcontext()

    outcome = run_trainer(name.replace(".", " "), trainer, Resolved(placed, {}), component=component, watch=watch)
    findings.expect(not component.page or outcome.page is not None, "Its page could not be written; see the warning.")
    total = chosen.run.num_steps
    findings.expect(
        bool(steps) and max(steps) == total, f"It was asked for {total} steps and logged up to {max(steps, default=0)}."
    )
    findings.expect((folder / "run" / "checkpoints" / "last").is_file(), "It leaves no checkpoint.")
    findings.close()
    return outcome.document
