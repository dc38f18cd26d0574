"""The loop that every trainer shares: step, log, save, stop when asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import SupportsFloat

from motionkit.config import TrainerSettings
from motionkit.runs import Run
from motionkit.trainers._state import Parts, collect


def run_steps(
    run: Run,
    settings: TrainerSettings,
    step_fn: Callable[[int], Mapping[str, SupportsFloat]],
    parts: Parts,
    *,
    done: Callable[[], bool] = lambda: False,
) -> bool:
    """Run the steps that are left, with logging and checkpoints at their intervals.

    A trainer calls it once everything is in the state of ``run.start_step``: built from the seed, or given
    ``run.checkpoint()`` back by `restore`. The global random generators are put back here, last, so that whatever was
    drawn while building does not matter: k steps, resume and n - k steps give the bits of n steps.

    Args:
        run: The open run.
        settings: Gives ``run.num_steps``, ``log.every``, ``checkpoint.every``.
        step_fn: Does step number ``step`` (1-based) and returns its metrics.
        parts: Everything a checkpoint needs to continue.
        done: Whether the trainer has reached its end before the last step; asked before each step.

    Returns:
        True when all steps are done and nobody asked to stop, so that final evaluations are worth their time. The
        state is saved either way.
    """
    total = settings.run.num_steps
    run.total_steps = total
    step, saved = run.start_step, -1
    if (checkpoint := run.checkpoint()) is not None:
        checkpoint.restore_random()
        saved = step
    while step < total and not run.stop_requested and not done():
        step += 1
        metrics = step_fn(step)
        if step % settings.log.every == 0 or step == total or run.stop_requested:
            run.log(step, metrics)
        if settings.checkpoint.every and step % settings.checkpoint.every == 0:
            run.save(step, *collect(parts))
            saved = step
    if step > saved:
        run.save(step, *collect(parts))
    return (step >= total or done()) and not run.stop_requested
