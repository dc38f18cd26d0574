"""Samplers and pruners of Optuna for one trial. Their random numbers depend on the seed and the trial's number only.

So a search that was stopped continues with the same trials. The points of Sobol's sequence and of CMA-ES are made here,
from the trials that have ended, so that nothing but trials lies in the storage: Optuna keeps a counter there for the
first, and for the second a pickle, which anyone with write access could replace.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from motionkit.contracts.search import Choice, Range
from motionkit.tuning.plan import Plan

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

_STARTUP = 10
"""Random trials before a sampler learns from the others."""


def make_sampler(plan: Plan, number: int, done: Sequence[FrozenTrial]) -> BaseSampler:
    """Return the sampler for the trial of a number.

    Args:
        plan: The search.
        number: The number.
        done: The trials with a value so far.
    """
    import optuna

    seed = int.from_bytes(hashlib.blake2b(f"tune/{plan.seed}/{number}".encode(), digest_size=4).digest(), "little")
    if plan.sampler == "gp":
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=_STARTUP, deterministic_objective=False)
    if plan.sampler == "tpe":
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
    point: dict[str, Any] = {}
    if plan.sampler == "qmc":
        point = _sobol(plan, max(0, number - 1))  # trial 0 is the base
    elif plan.sampler == "cmaes":
        point = _cma(plan, seed, done)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.PartialFixedSampler(point, optuna.samplers.RandomSampler(seed=seed))


def make_pruner(plan: Plan) -> BasePruner:
    """Return the pruner of a search."""
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner

    if plan.pruner == "hyperband":
        return HyperbandPruner(min_resource=plan.patience, reduction_factor=3)
    if plan.pruner == "median":
        return MedianPruner(n_startup_trials=5, n_warmup_steps=plan.patience - 1)
    return NopPruner()


def _sobol(plan: Plan, index: int) -> dict[str, Any]:
    """Return a point of Sobol's sequence, scrambled by the seed of the search."""
    from scipy.stats import qmc

    axes = plan.dimensions
    sequence = qmc.Sobol(len(axes), scramble=True, seed=plan.seed % 2**32)
    if index:
        sequence.fast_forward(index)
    point: dict[str, Any] = {}
    for (key, axis), share in zip(axes.items(), sequence.random(1)[0], strict=True):
        if isinstance(axis, Choice):
            point[key] = axis.values[int(share * len(axis.values))]
        else:
            low, high = _ends(axis)
            point[key] = _value(axis, low + share * (high - low))
    return point


def _cma(plan: Plan, seed: int, done: Sequence[FrozenTrial]) -> dict[str, Any]:
    """Return a point of CMA-ES, which is told every finished generation: a few dozen vectors, in milliseconds."""
    numbers = {key: axis for key, axis in sorted(plan.dimensions.items()) if isinstance(axis, Range)}
    axes = {key: axis for key, axis in numbers.items() if axis.low < axis.high}
    if len(axes) < 2 or not done:
        return {}
    import cmaes
    import numpy as np

    points = [
        np.array([_place(axis, trial.params[key]) for key, axis in axes.items()]) for trial in done
    ]  # [axes] each
    bounds = np.array([_ends(axis) for axis in axes.values()])  # [axes, 2]
    width = bounds[:, 1] - bounds[:, 0]
    optimizer = cmaes.CMA(
        mean=points[0], sigma=float(width.min() / 6), cov=np.diag((width / width.min()) ** 2), bounds=bounds, seed=seed
    )
    sign = -1.0 if plan.direction == "maximize" else 1.0
    told = [(point, sign * float(trial.value or 0.0)) for point, trial in zip(points, done, strict=True)]
    size = optimizer.population_size
    for start in range(0, len(told) - size + 1, size):
        optimizer.tell(told[start : start + size])
    return {key: _value(axis, at) for (key, axis), at in zip(axes.items(), optimizer.ask(), strict=True)}


def _place(axis: Range, value: float) -> float:
    """Return where a value lies on the scale that is searched."""
    return math.log(value) if axis.log else float(value)


def _ends(axis: Range) -> tuple[float, float]:
    """Return the ends of a range on the scale that is searched; whole numbers have half a step to each side."""
    half = axis.step / 2 if axis.whole else 0.0
    return _place(axis, axis.low - half), _place(axis, axis.high + half)


def _value(axis: Range, place: float) -> float:
    """Return the value at a place on the scale that is searched."""
    value = math.exp(place) if axis.log else float(place)
    if axis.whole:
        value = axis.low + axis.step * math.floor((value - axis.low) / axis.step + 0.5)
    value = min(max(value, axis.low), axis.high)
    return int(value) if axis.whole else value
