"""One trial: a training run in its own folder, watched, measured and tidied up."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.runs import Run, peek
from motionkit.tuning._base import Base
from motionkit.tuning._keys import flat, value_at

Report = Callable[[int, float], bool]
"""Takes the number of a value on the way, from 1, and the value; returns whether to go on."""


@dataclass(frozen=True)
class Ended:
    """How a trial ended.

    Attributes:
        state: ``complete``, ``pruned`` (stopped early), ``diverged``, ``failed`` or ``interrupted``.
        value: What was reached; None without a value.
        reason: Why there is none.
        signal: The signal that stopped it, or 0.
    """

    state: str
    value: float | None = None
    reason: str = ""
    signal: int = 0


def run_trial(
    base: Base,
    values: Mapping[str, Any],
    folder: Path,
    *,
    value: str,
    watch: str = "",
    report: Report | None = None,
    alive: Callable[[], bool] = lambda: True,
) -> Ended:
    """Train with some settings replaced.

    Args:
        base: Trainer and settings.
        values: Settings of this trial.
        folder: Its run folder; an older try there is replaced.
        value: Where the value stands in the summary document, dotted.
        watch: Metric of the values on the way.
        report: Is told these.
        alive: Whether anyone still wants the result; asked at each logged step. What it logs is of the study.
    """
    from motionkit.trainers.execute import build_trainer, run_trainer

    place = {"run.out": str(folder), "run.overwrite": folder.exists(), "checkpoint.every": 0, "checkpoint.keep": 1}
    count, stopped = 0, ""
    outside = logging.getLogger("motionkit").handlers

    @contextmanager
    def watched(run: Run) -> Iterator[None]:
        def listen(step: int, metrics: Mapping[str, float]) -> None:
            nonlocal count, stopped
            with heard_by(outside):
                wanted = alive()
            if not wanted:
                stopped = stopped or "nobody waits for it any more"
                run.signals.stop()
            if watch not in metrics or step == 0:
                return
            count += 1
            now = float(metrics[watch])
            if not math.isfinite(now):
                stopped = f"diverged: {watch} is {now} at step {step}"
                run.signals.stop()
            elif report is not None and not report(count, now):
                stopped = f"pruned: {watch} {now:.3f} at step {step} is behind other trials"
                run.signals.stop()

        run.listeners.append(listen)
        yield

    try:
        with apart():
            resolved = base.with_values({**values, **place})
            trainer = build_trainer(base.command, base.component, resolved.settings)
            with plugins.catching():
                trainer.prepare()
            outcome = run_trainer(
                base.command, trainer, resolved, component=None, watch=watched
            )  # fmt: skip
    except MotionkitError as error:
        state = "diverged" if error.code == 1 and "finite" in error.sentence() else "failed"
        return Ended(state, reason=error.sentence())
    except OSError as error:
        return Ended("failed", reason=str(error))
    finally:
        tidy(folder, keep_model=True)
    if stopped:
        state = stopped.partition(":")[0]
        return Ended(state if state in ("diverged", "pruned") else "interrupted", reason=stopped, signal=0)
    if outcome.status != "done":
        return Ended("interrupted", reason="interrupted", signal=outcome.exit_code - 128)
    try:
        found = value_at(outcome.document, value)
    except KeyError:
        numbers = [key for key, one in flat(outcome.document) if isinstance(one, float)]
        return Ended("failed", reason=f"its summary has no {value}; it has {', '.join(numbers[:12])}")
    if not isinstance(found, (int, float)) or not math.isfinite(found):
        return Ended("diverged", reason=f"diverged: {value} is {found}")
    return Ended("complete", float(found))


def tidy(folder: Path, *, keep_model: bool) -> None:
    """Delete the checkpoints of an ended trial, and unless `keep_model` what the trainer made of it."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    record = peek(folder).record if not keep_model and (folder / "run.json").is_file() else None
    for name in record.artifacts if record is not None else ():
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def apart() -> AbstractContextManager[None]:
    """Keep the lines of a trial out of the console and the log of the study; it has a log.txt of its own."""
    return heard_by([logging.NullHandler()])


@contextmanager
def heard_by(handlers: list[logging.Handler]) -> Iterator[None]:
    """Let these handlers, and no others, take what motionkit logs in the block."""
    logger = logging.getLogger("motionkit")
    before, logger.handlers = logger.handlers, handlers
    try:
        yield
    finally:
        logger.handlers = before
