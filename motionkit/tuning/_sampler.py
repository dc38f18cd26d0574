"""Optuna's samplers and pruners by name, as if no trial was ever lost; and CMA-ES without pickles."""

from __future__ import annotations

import copy
import functools
import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from motionkit.tuning._storage import quiet_optuna

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

    from motionkit.tuning._plan import Plan

LOST = "lost"
"""Attribute of a trial whose process died or was stopped; its settings were put back into the queue."""

PLACE = "place"
"""Attribute of a trial: the number that it has where no trial is lost. One that is run again has that of the first."""

_STARTUP = 10


def place_of(trial: FrozenTrial) -> int:
    """Return the place of a trial; that of one from before places were kept is its number."""
    place = trial.user_attrs.get(PLACE)
    return place if isinstance(place, int) else trial.number


def next_place(trials: Iterable[FrozenTrial]) -> int:
    """Return the place of the trial that Optuna gives out next: the first that waits, else the one behind all."""
    last = -1
    waiting = None
    for one in trials:
        if one.state.name != "WAITING":
            last = max(last, -1 if LOST in one.user_attrs else place_of(one))
        elif waiting is None:
            waiting = one
    return place_of(waiting) if waiting is not None and PLACE in waiting.user_attrs else last + 1


def make_sampler(plan: Plan, place: int) -> BaseSampler:
    """Return the sampler for one trial; its random numbers depend on the seed and the trial's place alone.

    So a search that was stopped goes on with the trials that it would have had.
    """
    optuna = quiet_optuna()
    seed = int.from_bytes(hashlib.blake2b(f"tune/{plan.seed}/{place}".encode(), digest_size=4).digest(), "little")
    samplers = optuna.samplers
    if plan.sampler == "gp":
        found: BaseSampler = samplers.GPSampler(seed=seed, n_startup_trials=_STARTUP, deterministic_objective=False)
    elif plan.sampler == "tpe":
        found = samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
    elif plan.sampler == "qmc":  # one sequence for all trials
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            found = _qmc_class()(place, plan.seed % 2**32)
    elif plan.sampler == "cmaes":
        found = _cma_class()(seed, plan.direction == "maximize")
    else:
        found = samplers.RandomSampler(seed=seed)
    return found


def make_pruner(plan: Plan, place: int) -> BasePruner:
    """Return the pruner for one trial."""
    pruners = quiet_optuna().pruners
    if plan.pruner == "hyperband":
        found: BasePruner = _hyperband_class()(place, plan.patience)
    elif plan.pruner == "median":
        found = pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=plan.patience - 1)
    else:
        found = pruners.NopPruner()
    return found


@functools.lru_cache(maxsize=1)
def _hyperband_class() -> Any:
    """Return the class of the Hyperband pruner; its base class is Optuna's, which is imported here."""
    import optuna

    class PlacedHyperband(optuna.pruners.HyperbandPruner):
        """Hyperband whose brackets follow from the places of trials, and which lost trials do not compete in.

        Optuna draws a trial's bracket by its number, and compares it with all that have reached a rung.
        """

        def __init__(self, place: int, patience: int) -> None:
            super().__init__(min_resource=patience, reduction_factor=3)
            self._place = place

        def _get_bracket_id(self, study: Any, trial: FrozenTrial) -> int:
            if LOST in trial.user_attrs:
                return -1
            placed = copy.copy(trial)
            placed.number = place_of(trial) if PLACE in trial.user_attrs else self._place
            return super()._get_bracket_id(study, placed)

    return PlacedHyperband


@functools.lru_cache(maxsize=1)
def _qmc_class() -> Any:
    """Return the class of the quasi-random sampler; its base class is Optuna's, which is imported here."""
    import optuna

    class PlacedQmc(optuna.samplers.QMCSampler):
        """A sequence in which a trial's point follows from its place; Optuna counts those that were drawn."""

        def __init__(self, place: int, seed: int) -> None:
            super().__init__(seed=seed, scramble=True, warn_independent_sampling=False)
            self._place = place

        def _find_sample_id(self, study: Any, search_space: Any) -> int:
            return max(0, self._place - 1)  # trial 0 is the base

    return PlacedQmc


@functools.lru_cache(maxsize=1)
def _cma_class() -> Any:
    """Return the class of the CMA-ES sampler; its base class is Optuna's, which is imported here."""
    import numpy as np
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.search_space import IntersectionSearchSpace
    from optuna.trial import TrialState

    class ReplayedCma(optuna.samplers.BaseSampler):
        """CMA-ES that is built anew for each trial from the trials that are there.

        Optuna's own sampler keeps its optimiser as a pickle in the storage, which whoever can write the storage could
        replace. Here every finished generation is told again: a few dozen vectors, in milliseconds.
        """

        def __init__(self, seed: int, maximize: bool) -> None:
            self._seed, self._sign = seed, -1.0 if maximize else 1.0
            self._independent = optuna.samplers.RandomSampler(seed=seed)

        def infer_relative_search_space(self, study: Any, trial: FrozenTrial) -> dict[str, BaseDistribution]:
            return {
                key: one
                for key, one in IntersectionSearchSpace().calculate(study).items()
                if not isinstance(one, optuna.distributions.CategoricalDistribution) and not one.single()
            }

        def sample_relative(
            self, study: Any, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
        ) -> dict[str, Any]:
            done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if len(search_space) < 2 or not done:
                return {}
            import cmaes
            from optuna._transform import _SearchSpaceTransform

            space = _SearchSpaceTransform(dict(search_space))
            bounds = space.bounds
            width = bounds[:, 1] - bounds[:, 0]
            first = space.transform(done[0].params)
            optimizer = cmaes.CMA(
                mean=first, sigma=float(width.min() / 6), cov=np.diag((width / width.min()) ** 2), bounds=bounds,
                seed=self._seed,
            )  # fmt: skip
            size = optimizer.population_size
            for start in range(0, len(done) - size + 1, size):
                generation: Sequence[FrozenTrial] = done[start : start + size]
                told = [(space.transform(one.params), self._sign * float(one.value or 0.0)) for one in generation]
                optimizer.tell(told)
            found: dict[str, Any] = space.untransform(optimizer.ask())
            return found

        def sample_independent(
            self, study: Any, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
        ) -> Any:
            return self._independent.sample_independent(study, trial, param_name, param_distribution)

    return ReplayedCma
