"""Training that fits a model to data: measured before, in between and after, and continued from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from motionkit.config import TrainerSettings
from motionkit.runs import Run
from motionkit.training.learner import Learner
from motionkit.training.steps import Kept, Parts, restore, run_steps

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Fit:
    """A training that is done; the network holds the weights of the last step."""

    before: Figures  # what `before` returned, in this process or in the one that began the run
    after: Figures  # what `measure` returned after the last step


def fit(
    run: Run,
    settings: TrainerSettings,
    learner: Learner,
    step: Callable[[int], Figures],
    *,
    measure: Callable[[int], Figures] | None = None,
    every: int = 0,
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
        measure: Measures the model on held-out data after that step; its figures join the metrics. It may also keep
            the best weights, in a `Best` among `parts`. None: nothing is held out.
        every: Steps between two measurements; 0 measures after the last step only.
        before: Measures the model as it starts. A checkpoint keeps the figures under the name ``before``.
        begin: Called once the state is that of the first step to do, such as to write the model's description.
        parts: What a checkpoint holds besides the learner.

    Returns:
        None for a run that was stopped.
    """
    start, after = Kept(), dict[str, float]()
    kept = {**learner.parts(), **(parts or {})} | ({} if before is None else {"before": start})
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
    return Fit(start.values, after)
