"""The work of each process of a search: take the next trial, train, record the value, until none is left.

`work` does it. Below it is one trial, `run_trial`: a training run in its own folder, followed while it runs, then
measured and cleaned up.
"""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.runs import Run, peek
from motionkit.tuning.base import Base, flat, value_at
from motionkit.tuning.presence import present
from motionkit.tuning.trials import Ended, Report, Trials


def work(
    trials: Trials,
    base: Base,
    *,
    alive: Callable[[], bool] = lambda: True,
    told: Callable[[], object] = lambda: None,
) -> int:
    """Run trials until none is left.

    Args:
        trials: The trials.
        base: Trainer and settings.
        alive: Whether the results are still wanted.
        told: Called after each trial.

    Returns:
        The signal that stopped them, or 0.

    Raises:
        MotionkitError: The storage fails (exit code 1).
    """
    plan = trials.plan
    with present(trials.folder) as name:
        while alive():
            trial = trials.claim(name)
            if trial is None:
                return 0
            ended = run_trial(
                base, {**plan.trial, **trials.settings_of(trial)}, trials.place_of(trial),
                value=plan.value, watch=plan.watch, report=trials.report_of(trial), alive=alive,
            )  # fmt: skip
            with _late():
                trials.tell(trial, ended)
            told()
            if ended.state == "interrupted":
                return ended.signal or 15
    return 15


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
        value: Dotted key of the value in the summary document.
        watch: Metric of the intermediate values.
        report: Called with these.
        alive: Whether the result is still wanted; asked at each logged step. Its log lines go to the study's log.
    """
    from motionkit.training.execute import run_trainer

    place = {"run.out": str(folder), "run.overwrite": folder.exists(), "checkpoint.every": 0, "checkpoint.keep": 1}
    count, stopped = 0, ""
    outside = logging.getLogger("motionkit").handlers

    @contextmanager
    def watched(run: Run) -> Iterator[None]:
        def listen(step: int, metrics: Mapping[str, float]) -> None:
            nonlocal count, stopped
            with heard_by(outside):
                goes_on = alive()
            if not goes_on:
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
        with heard_by([logging.NullHandler()]):  # the log of a trial goes to its own log.txt
            resolved, trainer = base.prepared({**values, **place})
            outcome = run_trainer(base.command, trainer, resolved, component=None, watch=watched)
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
        result = value_at(outcome.document, value)
    except KeyError:
        numbers = [key for key, entry in flat(outcome.document) if isinstance(entry, float)]
        return Ended("failed", reason=f"its summary has no {value}; it has {', '.join(numbers[:12])}")
    if not isinstance(result, (int, float)) or not math.isfinite(result):
        return Ended("diverged", reason=f"diverged: {value} is {result}")
    return Ended("complete", float(result))


def tidy(folder: Path, *, keep_model: bool) -> None:
    """Delete the checkpoints of an ended trial, and unless `keep_model` its artifacts."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    record = peek(folder).record if not keep_model and (folder / "run.json").is_file() else None
    for name in record.artifacts if record is not None else ():
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def heard_by(handlers: list[logging.Handler]) -> Iterator[None]:
    """Replace the handlers of motionkit's logger in the block."""
    logger = logging.getLogger("motionkit")
    before, logger.handlers = logger.handlers, handlers
    try:
        yield
    finally:
        logger.handlers = before


@contextmanager
def _late() -> Iterator[None]:
    try:
        yield
    except MotionkitError as error:
        raise error.as_late() from error
