"""Optuna's part of a search: the storage of its trials, and its samplers and pruners.

`open_study` opens the storage: a journal in the study folder, or any storage of Optuna's. `make_sampler` and
`make_pruner` make those of a plan for one trial, which ignore lost trials; CMA-ES needs no pickles.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit.errors import MotionkitError
from motionkit.tuning.plan import JOURNAL

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from motionkit.tuning.plan import Plan

WAIT = 30.0
"""Seconds to wait for a locked storage."""

LOST = "lost"
"""Attribute of a trial whose process died or was stopped; its settings were put back into the queue."""

PLACE = "place"
"""Attribute of a trial: its number if lost trials are not counted. A trial that is run again keeps its place."""

_PACKAGES = ("sqlalchemy", "optuna", "redis", "grpc", "filelock")
"""Packages whose errors are those of a storage."""

_STARTUP = 10
"""Random trials before a sampler learns from the others."""


def quiet_optuna() -> Any:
    """Import optuna and silence its log."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_storage(url: str, folder: Path, *, wait: float | None = None) -> BaseStorage:
    """Open the storage of a study.

    Args:
        url: URL of any Optuna storage; empty for the journal in `folder`.
        folder: The study folder.
        wait: Seconds to wait for a lock; `WAIT` by default.
    """
    optuna = quiet_optuna()
    wait = WAIT if wait is None else wait
    with storage_errors(url or str(folder / JOURNAL)):
        if url:
            options = {"connect_args": {"timeout": wait}} if url.startswith("sqlite") else {}
            storage: BaseStorage = (
                optuna.storages.RDBStorage(url, engine_kwargs=options)
                if not url.startswith("redis")
                else optuna.storages.get_storage(url)
            )
            return storage
        path = folder / JOURNAL
        _refuse_links(path)
        mend(path, wait)
        from optuna.storages.journal import JournalFileBackend

        lock: Any = _KernelLock(path, wait)
        journal: BaseStorage = optuna.storages.JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
        return journal


def open_study(plan: Plan, folder: Path, name: str = "", *, wait: float | None = None) -> Study:
    """Open or create a study of a plan."""
    optuna = quiet_optuna()
    name = name or plan.study
    storage = open_storage(plan.storage, folder, wait=wait)
    with storage_errors(plan.storage or str(folder / JOURNAL)):
        study: Study = optuna.create_study(
            study_name=name, storage=storage, direction=plan.direction, load_if_exists=True
        )
        known = study.user_attrs.get("plan")
        if known is None:
            study.set_user_attr("plan", plan.digest)
        elif known != plan.digest:
            raise MotionkitError(
                f"study {name!r} is there already, with other settings, space, value or data.",
                why="its trials would not be comparable.",
                fix="choose another --name, or run it with the settings and the data that it was begun with.",
            )
    return study


def delete_studies(plan: Plan, folder: Path) -> None:
    """Delete the studies of a plan from an external storage."""
    optuna = quiet_optuna()
    with storage_errors(plan.storage):
        storage = open_storage(plan.storage, folder)
        names = [study.study_name for study in optuna.get_all_study_summaries(storage)]
        for name in (plan.study, seeds_of(plan)):
            if name in names:
                optuna.delete_study(study_name=name, storage=storage)


def seeds_of(plan: Plan) -> str:
    """Return the name of the second study, with further seeds."""
    return f"{plan.study} (seeds)"


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """Turn the errors of a storage into a `MotionkitError`."""
    try:
        yield
    except MotionkitError:
        raise
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise _unusable(where, error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _PACKAGES and _raised_in(error) not in _PACKAGES:
            raise
        raise _unusable(where, error) from error


def _raised_in(error: Exception) -> str:
    """Return the package whose code raised an error: a damaged journal makes Optuna raise nearly any."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def _unusable(where: str, error: Exception) -> MotionkitError:
    text = " ".join(str(error).split())
    shown = _without_password(where)
    if "locked" in text.lower():
        return MotionkitError(
            f"the storage {shown} is locked by another process.",
            why=f"it stayed so for {WAIT:g} s.",
            fix="wait for that process or end it, then run the same command again; nothing is lost.",
        )
    if isinstance(error, ImportError):
        return MotionkitError(f"the storage {shown} needs a driver.", why=text, fix="pip install it, such as psycopg2")
    text = f"{type(error).__name__}: {text}" if isinstance(error, LookupError) or not text else text
    if "://" in where:
        fix = "check the URL: sqlite:///tune.db, or leave it out."
    else:
        fix = "copy the study's folder again, or begin another one: --name NEW"
    return MotionkitError(f"the storage {shown} cannot be used.", why=text[:300], fix=fix)


def _without_password(url: str) -> str:
    scheme, marks, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{scheme}{marks}{user.partition(':')[0]}{at}{place}" if marks and at else url


def _refuse_links(path: Path) -> None:
    """Refuse a journal or lock that is a link, a pipe or a folder: a search would write to its target."""
    for file in (path, path.with_name(f"{path.name}.lock")):
        if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
            raise MotionkitError(
                f"{file} is not a regular file.",
                why="a search writes to it.",
                fix="copy the study's folder again, or begin another one: --name NEW",
            )


def mend(path: Path, wait: float) -> None:
    """Cut off an incomplete last line, left by a killed process: the next record would be appended to it."""
    if not path.exists():
        return
    lock = _KernelLock(path, wait)
    lock.acquire()
    try:
        with path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            end = size
            while end:
                start = max(0, end - 65536)
                file.seek(start)
                place = file.read(end - start).rfind(b"\n")
                if place >= 0:
                    end = start + place + 1
                    break
                end = start
            if end < size:
                logging.getLogger("motionkit.tuning").warning("%s ended in half a line, which is cut off", path)
                file.truncate(end)
    finally:
        lock.release()


class _KernelLock:
    """A lock that the system frees when its process dies; Optuna's own locks stay behind."""

    def __init__(self, path: Path, wait: float) -> None:
        from filelock import FileLock

        self._lock = FileLock(f"{path}.lock", timeout=wait)

    def acquire(self) -> bool:
        """Wait for the lock; RuntimeError after the timeout."""
        from filelock import Timeout

        try:
            self._lock.acquire()
        except Timeout as error:
            raise RuntimeError("the journal is locked") from error
        return True

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()


def place_of(trial: FrozenTrial) -> int:
    """Return the place of a trial; the number of one recorded before places were."""
    place = trial.user_attrs.get(PLACE)
    return place if isinstance(place, int) else trial.number


def next_place(trials: Iterable[FrozenTrial]) -> int:
    """Return the place of the trial that Optuna hands out next: the first that waits, else a new one at the end."""
    last = -1
    waiting = None
    for trial in trials:
        if trial.state.name != "WAITING":
            last = max(last, -1 if LOST in trial.user_attrs else place_of(trial))
        elif waiting is None:
            waiting = trial
    return place_of(waiting) if waiting is not None and PLACE in waiting.user_attrs else last + 1


def make_sampler(plan: Plan, place: int) -> BaseSampler:
    """Return the sampler for one trial; its random numbers depend on the seed and the trial's place only.

    So a search that was stopped continues with the same trials.
    """
    optuna = quiet_optuna()
    seed = int.from_bytes(hashlib.blake2b(f"tune/{plan.seed}/{place}".encode(), digest_size=4).digest(), "little")
    samplers = optuna.samplers
    if plan.sampler == "gp":
        sampler: BaseSampler = samplers.GPSampler(seed=seed, n_startup_trials=_STARTUP, deterministic_objective=False)
    elif plan.sampler == "tpe":
        sampler = samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
    elif plan.sampler == "qmc":  # one sequence for all trials
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = _qmc_class()(place, plan.seed % 2**32)
    elif plan.sampler == "cmaes":
        sampler = _cma_class()(seed, plan.direction == "maximize")
    else:
        sampler = samplers.RandomSampler(seed=seed)
    return sampler


def make_pruner(plan: Plan, place: int) -> BasePruner:
    """Return the pruner for one trial."""
    pruners = quiet_optuna().pruners
    if plan.pruner == "hyperband":
        pruner: BasePruner = _hyperband_class()(place, plan.patience)
    elif plan.pruner == "median":
        pruner = pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=plan.patience - 1)
    else:
        pruner = pruners.NopPruner()
    return pruner


@functools.lru_cache(maxsize=1)
def _hyperband_class() -> Any:
    """Return the class of the Hyperband pruner; a function, since its base class needs optuna."""
    import optuna

    class PlacedHyperband(optuna.pruners.HyperbandPruner):
        """Hyperband whose brackets depend on the places of trials and exclude lost ones.

        Optuna's draws a trial's bracket from its number, and compares it with all trials that have reached a rung.
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
    """Return the class of the quasi-random sampler; a function, since its base class needs optuna."""
    import optuna

    class PlacedQmc(optuna.samplers.QMCSampler):
        """A sequence whose index is the trial's place; Optuna's counts the points drawn so far."""

        def __init__(self, place: int, seed: int) -> None:
            super().__init__(seed=seed, scramble=True, warn_independent_sampling=False)
            self._place = place

        def _find_sample_id(self, study: Any, search_space: Any) -> int:
            return max(0, self._place - 1)  # trial 0 is the base

    return PlacedQmc


@functools.lru_cache(maxsize=1)
def _cma_class() -> Any:
    """Return the class of the CMA-ES sampler; a function, since its base class needs optuna."""
    import numpy as np
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.search_space import IntersectionSearchSpace
    from optuna.trial import TrialState

    class ReplayedCma(optuna.samplers.BaseSampler):
        """CMA-ES whose optimiser is rebuilt for each trial from the finished ones.

        Optuna's sampler keeps its optimiser as a pickle in the storage, which anyone with write access could replace.
        Here every finished generation is replayed: a few dozen vectors, in milliseconds.
        """

        def __init__(self, seed: int, maximize: bool) -> None:
            self._seed, self._sign = seed, -1.0 if maximize else 1.0
            self._independent = optuna.samplers.RandomSampler(seed=seed)

        def infer_relative_search_space(self, study: Any, trial: FrozenTrial) -> dict[str, BaseDistribution]:
            return {
                key: distribution
                for key, distribution in IntersectionSearchSpace().calculate(study).items()
                if not isinstance(distribution, optuna.distributions.CategoricalDistribution)
                and not distribution.single()
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
                evaluated = [
                    (space.transform(member.params), self._sign * float(member.value or 0.0)) for member in generation
                ]
                optimizer.tell(evaluated)
            params: dict[str, Any] = space.untransform(optimizer.ask())
            return params

        def sample_independent(
            self, study: Any, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
        ) -> Any:
            return self._independent.sample_independent(study, trial, param_name, param_distribution)

    return ReplayedCma
