"""Training that fits a model to data: measured before, in between and after, and continued from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from motionkit.config import TrainerSettings
from motionkit.runs import Run
from motionkit.training.learner import Best, Learner
from motionkit.training.steps import Kept, Parts, restore, run_steps
from motionkit.training.world import of_main

Figures = Mapping[str, float]

_logger = logging.getLogger("motionkit.trainers")


@dataclass(frozen=True)
class Fit:
    """A training that is done; the network holds the weights of the last step."""

    before: Figures  # what `before` returned, in this process or in the one that began the run
    after: Figures  # what `measure` returned after the last step
    best: Best = field(compare=False)  # the weights that were worth most; none where nothing says what they are worth


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
        learner: Holds the model; its moving average, if there is one, is what is measured.
        step: Does step number ``step`` (from 1), `Learner.descend` included, and returns its metrics.
        measure: Measures the model on held-out data after that step; its figures join the metrics. None: nothing is
            held out.
        every: Steps between two measurements; 0 measures after the last step only.
        worth: What weights with such figures are worth, which says what the best ones are; a checkpoint keeps these
            under the name ``best``. None: the last ones are kept.
        before: Measures the model as it starts. A checkpoint keeps the figures under the name ``before``.
        begin: Called once the state is that of the first step to do, such as to write the model's description.
        parts: What a checkpoint holds besides the learner.

    Returns:
        None for a run that was stopped.
    """
    start, after, best = Kept(), dict[str, float](), Best()
    kept = {**learner.parts(), **(parts or {})} | ({} if before is None else {"before": start})
    kept |= {} if worth is None else {"best": best}
    if (checkpoint := run.checkpoint()) is not None:
        restore(kept, checkpoint)
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

    if not run_steps(run, settings, step_fn, kept, world=learner.world):
        return None
    if not after:  # resumed after the last step
        measured(settings.run.num_steps)
    return Fit(start.values, after, best)
