"""The loop that every trainer shares: step, log, save, stop when asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import SupportsFloat

import numpy as np

from motionkit.config import TrainerSettings
from motionkit.runs import Run
from motionkit.trainers._device import seed_everything
from motionkit.trainers._following import asked_to_stop
from motionkit.trainers._state import Parts, collect
from motionkit.trainers._world import OneProcess, World


def run_steps(
    run: Run,
    settings: TrainerSettings,
    step_fn: Callable[[int], Mapping[str, SupportsFloat]],
    parts: Parts,
    *,
    done: Callable[[], bool] = lambda: False,
    world: World | None = None,
) -> bool:
    """Run the steps that are left, with logging and checkpoints at their intervals.

    A trainer calls it once everything is in the state of ``run.start_step``: built from the seed, or given
    ``run.checkpoint()`` back by `restore`. The global random generators are put back here, last, so that whatever was
    drawn while building does not matter: k steps, resume and n - k steps give the bits of n steps.

    Several processes do the same steps, and a signal to one of them stops all after the same step. Their global
    generators are seeded before each step by seed, step and rank: dropout differs between their shares of a batch, and
    a resumed run needs nothing but the main process's checkpoint.

    Args:
        run: The open run.
        settings: Gives ``run.num_steps``, ``log.every``, ``checkpoint.every``.
        step_fn: Does step number ``step`` (1-based) and returns its metrics.
        parts: Everything a checkpoint needs to continue.
        done: Whether the trainer has reached its end before the last step; asked before each step. All processes must
            give the same answer.
        world: The processes that do the steps together.

    Returns:
        True when all steps are done and nobody asked to stop, so that final evaluations are worth their time. The
        state is saved either way.
    """
    world = world or OneProcess()
    total = settings.run.num_steps
    run.begin_steps(total)
    step, saved = run.start_step, -1
    if (checkpoint := run.checkpoint()) is not None:
        checkpoint.restore_random()
        saved = step
    while step < total and not asked_to_stop(run, world) and not done():
        step += 1
        if world.size > 1:
            seed_everything(_seed_of(settings.seed, step, world.rank))
        metrics = step_fn(step)
        if step % settings.log.every == 0 or step == total or run.stop_requested:
            run.log(step, metrics)
        if settings.checkpoint.every and step % settings.checkpoint.every == 0:
            _save(run, step, parts, world)
            saved = step
    if step > saved:
        _save(run, step, parts, world)
    return (step >= total or done()) and not asked_to_stop(run, world)


def _save(run: Run, step: int, parts: Parts, world: World) -> None:
    if world.main:  # the others hold the same
        run.save(step, *collect(parts))


def _seed_of(seed: int, step: int, rank: int) -> int:
    """Return a seed for one process in one step."""
    return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0] >> np.uint64(1))
