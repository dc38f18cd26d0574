"""Supervised training: measured before, in between and after, and continued from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from motionkit.runs import Run
from motionkit.training.learner import Best, Learner
from motionkit.training.settings import TrainerSettings
from motionkit.training.steps import Kept, Parts, restore, run_steps
from motionkit.training.world import of_main

Figures = Mapping[str, float]

_logger = logging.getLogger("motionkit.trainers")


@dataclass(frozen=True)
class Fit:
    """A finished training; the network holds the weights of the last step."""

    before: Figures  # result of `before`, in this process or in the one that began the run
    after: Figures  # result of `measure` after the last step
    best: Best = field(compare=False)  # the weights with the highest `worth`; none without it


def fit(
    run: Run,
    settings: TrainerSettings,
    learner: Learner,
    step: Callable[[int], Figures],
    *,
    measure: Callable[[int], Figures] | None = None,
    every: int = 0,
    worth: Callable[[Figures], float] | None = None,
    before: Callable[[], Figures] | None = None,
    begin: Callable[[], None] | None = None,
    parts: Parts | None = None,
) -> Fit | None:
    """Train until the last step; see `motionkit.training.steps.run_steps`, which logs, saves and stops when asked.

    Args:
        run: The open run.
        settings: Gives ``run.num_steps`` and the intervals.
        learner: Holds the model; its moving average, if there is one, is measured.
        step: Does step number ``step`` (from 1), `Learner.descend` included, and returns its metrics.
        measure: Measures the model on held-out data after that step; its figures are added to the metrics. None:
            nothing is held out.
        every: Steps between two measurements; 0 measures after the last step only.
        worth: Score of weights with such figures; a checkpoint keeps the best ones under the name ``best``. None: the
            last ones are kept.
        before: Measures the model at the start. A checkpoint keeps the figures under the name ``before``.
        begin: Called before the first step, with the state restored, such as to write the model's description.
        parts: Parts of a checkpoint besides the learner.

    Returns:
        None for a run that was stopped.
    """
    start, after, best = Kept(), dict[str, float](), Best()
    saved = {**learner.parts(), **(parts or {})} | ({} if before is None else {"before": start})
    saved |= {} if worth is None else {"best": best}
    if (checkpoint := run.checkpoint()) is not None:
        restore(saved, checkpoint)
    elif before is not None:
        start.values = dict(before())
    if begin is not None:
        begin()

    def measured(number: int) -> None:
        if measure is not None:
            with learner.averaged():
                after.clear()
                after.update(measure(number))
                value = 0.0 if worth is None else of_main(worth(after), learner.world)
                if worth is not None and best.offer(value, number, learner.model.tensors()):
                    _logger.info("step %d: the best so far on held-out data", number)

    def step_fn(number: int) -> Figures:
        metrics = dict(step(number))
        if number == settings.run.num_steps or (every and number % every == 0):
            measured(number)
            metrics |= after
        return metrics

    if not run_steps(run, settings, step_fn, saved, world=learner.world):
        return None
    if not after:  # resumed after the last step
        measured(settings.run.num_steps)
    return Fit(start.values, after, best)
