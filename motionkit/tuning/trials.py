"""The trials of a search, in the two studies of its storage: `Searched`, and `Repeated` with further seeds.

Both know what the next trial is, its settings and its folder. A trial whose process died or was stopped goes back into
the queue with its number and its settings, so it is run again as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit.tuning.plan import SEEDS, TRIALS, WORKERS, Plan, distributions
from motionkit.tuning.presence import alone, is_held
from motionkit.tuning.samplers import make_pruner, make_sampler
from motionkit.tuning.storage import open_storage, open_study, storage_errors

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

Report = Callable[[int, float], bool]
"""Called with the count of intermediate values, from 1, and the newest one; returns whether to go on."""

_UNNAMED = 60.0
"""Seconds after which a trial without a worker is taken for cut off."""

_HOPELESS = 5
"""First failures in a row after which the search gives up."""

_WORKER, _KILLED, _LOST = "worker", "killed", "lost"
"""Attributes of a trial: its process, a process that was killed while it ran it, and, in older studies, that it was cut
off and its settings are those of another trial."""

_WHO, _SEED = "settings", "seed"
"""Parameters of a trial with a further seed."""


@dataclass(frozen=True)
class Ended:
    """How a trial ended."""

    state: str  # ``complete``, ``pruned`` (stopped early), ``diverged``, ``failed`` or ``interrupted``
    value: float | None = None  # The value, if the trial is complete
    reason: str = ""  # Why there is none
    signal: int = 0  # The signal that stopped it, or 0


class Trials(ABC):
    """The trials of one study.

    Args:
        plan: The search.
        folder: The study folder.
        name: Name of the study in the storage.

    Raises:
        MotionkitError: The storage cannot be used, or its study has another plan.
    """

    phase: str  # What a further process is told to work on

    def __init__(self, plan: Plan, folder: Path, name: str) -> None:
        self.plan, self.folder = plan, folder
        self._storage = open_storage(plan, folder)
        self.study = open_study(self._storage, plan, folder, name)

    @abstractmethod
    def left(self) -> bool:
        """Whether there is a trial to take."""

    @abstractmethod
    def next(self) -> Trial:
        """Take the next trial."""

    @abstractmethod
    def settings_of(self, trial: Trial) -> dict[str, Any]:
        """Return what a trial sets besides `Plan.trial`."""

    @abstractmethod
    def place_of(self, trial: Trial | FrozenTrial) -> Path:
        """Return the run folder of a trial."""

    @abstractmethod
    def name_of(self, trial: FrozenTrial) -> str:
        """Return a trial's name for people."""

    @property
    @abstractmethod
    def total(self) -> int:
        """How many trials there will be."""

    @property
    def best(self) -> FrozenTrial | None:
        """The trial with the best value; None if they are not compared."""
        return None

    def report_of(self, trial: Trial) -> Report | None:
        """Return what is told a trial's values on the way; None if nobody asks for them."""
        return None

    @property
    def all(self) -> list[FrozenTrial]:
        """All trials of the storage."""
        return self.study.get_trials(deepcopy=False)

    @property
    def begun(self) -> list[FrozenTrial]:
        """The trials that run or have ended."""
        return [trial for trial in self.all if trial.state.name != "WAITING" and _LOST not in trial.user_attrs]

    @property
    def ended(self) -> list[FrozenTrial]:
        """The trials that have ended."""
        return [trial for trial in self.begun if trial.state.is_finished()]

    @property
    def running(self) -> list[FrozenTrial]:
        """The trials that run, here or on other machines."""
        return [trial for trial in self.begun if not trial.state.is_finished()]

    def claim(self, worker: str) -> Trial | None:
        """Take the next trial for a process; None if none is left."""
        with storage_errors(self.plan, self.folder), alone(self.folder):
            if not self.left():
                return None
            trial = self.next()
            trial.set_user_attr(_WORKER, worker)
            return trial

    def tell(self, trial: Trial, ended: Ended) -> None:
        """Record how a trial ended; an interrupted one goes back into the queue."""
        from optuna.trial import TrialState

        with storage_errors(self.plan, self.folder):
            if ended.state == "interrupted":
                self._put_back(trial.number)
                return
            if ended.reason:
                trial.set_user_attr("reason", ended.reason[:2000])
            if ended.state == "complete":
                self.study.tell(trial, ended.value)
            elif ended.state in ("pruned", "diverged"):
                trial.set_user_attr("ended", ended.state)
                self.study.tell(trial, state=TrialState.PRUNED)
            else:
                self.study.tell(trial, state=TrialState.FAIL)

    def recover(self) -> list[int]:
        """Put back the running trials whose process on this disk is dead; returns their numbers.

        Settings whose process is killed a second time have failed, since they may be the cause.
        """
        lost = []
        with storage_errors(self.plan, self.folder), alone(self.folder):
            for trial in self.running:
                name, killed = trial.user_attrs.get(_WORKER), trial.user_attrs.get(_KILLED)
                if not self._is_dead(name, trial):
                    continue
                lost.append(trial.number)
                if name is None or killed in (None, name):
                    self._put_back(trial.number, name)
                else:
                    self._fail(trial.number, "its process was killed, twice with these settings")
        return lost

    def _is_dead(self, worker: object, trial: FrozenTrial) -> bool:
        if worker is None:  # killed before its worker was recorded
            return age(trial) > _UNNAMED
        place = self.folder / WORKERS / str(worker)
        return isinstance(worker, str) and "/" not in worker and place.is_dir() and not is_held(place)

    def _put_back(self, number: int, killed: str | None = None) -> None:
        """Put a running trial back into the queue; after a kill in between the same is done again."""
        from optuna.trial import TrialState

        key = self._key_of(number)
        if killed is not None:
            self._storage.set_trial_user_attr(key, _KILLED, killed)
        self._storage.set_trial_user_attr(key, _WORKER, None)
        self._storage.set_trial_state_values(key, TrialState.WAITING)

    def _fail(self, number: int, reason: str) -> None:
        from optuna.trial import TrialState

        self._storage.set_trial_user_attr(self._key_of(number), "reason", reason)
        self.study.tell(number, state=TrialState.FAIL, skip_if_finished=True)

    def _key_of(self, number: int) -> int:
        study = self._storage.get_study_id_from_name(self.study.study_name)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)


class Searched(Trials):
    """The trials that search: trial 0 is the base, and a sampler draws the others."""

    phase = "search"

    def __init__(self, plan: Plan, folder: Path) -> None:
        super().__init__(plan, folder, plan.study)

    def begin(self) -> None:
        """Queue trial 0, unless there are trials."""
        if not self.all:
            self.study.enqueue_trial(self.plan.first)

    def left(self) -> bool:
        """Whether there are fewer trials than were asked for, and any hope."""
        return len(self.begun) < self.plan.trials and not self.hopeless

    def next(self) -> Trial:
        """Take the first trial that waits, or draw a new one."""
        trials = self.all
        number = next((trial.number for trial in trials if trial.state.name == "WAITING"), len(trials))
        self.study.sampler = make_sampler(self.plan, number, self.complete)
        self.study.pruner = make_pruner(self.plan)
        return self.study.ask(distributions(self.plan.dimensions))

    def settings_of(self, trial: Trial) -> dict[str, Any]:
        """Return the drawn settings."""
        return trial.params

    def place_of(self, trial: Trial | FrozenTrial) -> Path:
        """Return the run folder of a trial."""
        return self.folder / TRIALS / f"trial-{trial.number:05d}"

    def name_of(self, trial: FrozenTrial) -> str:
        """Return a trial's name for people."""
        return f"trial {trial.number}{', the base' if trial.number == 0 else ''}"

    @property
    def total(self) -> int:
        """How many trials were asked for."""
        return self.plan.trials

    def report_of(self, trial: Trial) -> Report:
        """Return what tells a trial's values to the pruner; those of a first try that was cut off are there already."""
        known = frozenset(self.all[trial.number].intermediate_values)

        def report(number: int, value: float) -> bool:
            if number in known:
                return True
            trial.report(value, number)
            return not trial.should_prune()

        return report

    @property
    def complete(self) -> list[FrozenTrial]:
        """The trials with a value; trials of other settings do not count."""
        return [
            trial
            for trial in self.all
            if trial.state.name == "COMPLETE" and trial.params.keys() == self.plan.space.keys()
        ]

    @property
    def best(self) -> FrozenTrial | None:
        """The trial with the best value, the earlier of equals; None while there is none."""
        sign = 1.0 if self.plan.direction == "maximize" else -1.0
        return max(self.complete, key=lambda trial: (sign * float(trial.value or 0.0), -trial.number), default=None)

    @property
    def hopeless(self) -> bool:
        """Whether at least `_HOPELESS` trials have ended and all of them failed."""
        ended = self.ended
        return len(ended) >= _HOPELESS and all(trial.state.name == "FAIL" for trial in ended)

    def importances(self) -> dict[str, float]:
        """Return the importance of each setting by PED-ANOVA; empty with too few trials."""
        if len(self.complete) < 4 or len(self.plan.space) < 2:
            return {}
        import optuna

        try:
            importances = optuna.importance.get_param_importances(self.study, normalize=True)
        except (RuntimeError, ValueError, ZeroDivisionError):  # all values are equal
            return {}
        return {key: float(value) for key, value in importances.items()}

    @property
    def reasons(self) -> list[str]:
        """Why trials failed, each reason once."""
        return list(dict.fromkeys(str(trial.user_attrs.get("reason", "no reason given")) for trial in self.begun))


class Repeated(Trials):
    """The trials of the best settings and the base with further seeds.

    Args:
        searched: The trials that search.
    """

    phase = "seeds"

    def __init__(self, searched: Searched) -> None:
        super().__init__(searched.plan, searched.folder, searched.plan.seeds_study)
        self._searched = searched

    @property
    def all(self) -> list[FrozenTrial]:
        """The trials of the base and of the best settings; those of settings that were the best before are left out."""
        best = self._searched.best
        since = best.datetime_complete if best is not None else None
        return [
            trial
            for trial in super().all
            if trial.params.get(_WHO) != "best"
            or trial.state.name == "WAITING"
            or not (trial.datetime_start and since and trial.datetime_start < since)
        ]

    def begin(self) -> None:
        """Queue base and best with every further seed, unless they are queued already."""
        queued = [trial.system_attrs.get("fixed_params") for trial in self.all]
        for seed in self._space()[_SEED].choices if self.plan.seeds else ():
            for who in ("base", "best"):
                params = {_WHO: who, _SEED: seed}
                if params not in queued:
                    self.study.enqueue_trial(params)

    def left(self) -> bool:
        """Whether any waits."""
        return any(trial.state.name == "WAITING" for trial in self.all)

    def next(self) -> Trial:
        """Take the first that waits."""
        return self.study.ask(self._space())

    def settings_of(self, trial: Trial) -> dict[str, Any]:
        """Return the best settings or the base's, and the seed."""
        best = self._searched.best
        values = best.params if trial.params[_WHO] == "best" and best is not None else self.plan.first
        return {**values, _SEED: trial.params[_SEED]}

    def place_of(self, trial: Trial | FrozenTrial) -> Path:
        """Return the run folder of a trial."""
        return self.folder / SEEDS / f"{trial.params.get(_WHO)}-seed-{trial.params.get(_SEED)}"

    def name_of(self, trial: FrozenTrial) -> str:
        """Return a trial's name for people."""
        return f"{trial.params.get(_WHO)}, seed {trial.params.get(_SEED)}"

    @property
    def total(self) -> int:
        """How many are queued, run or have ended."""
        return sum(_LOST not in trial.user_attrs for trial in self.all)

    def values(self) -> dict[str, dict[int, float | None]]:
        """Return the values of ``base`` and ``best``, by seed; None for failed ones."""
        by_seed: dict[str, dict[int, float | None]] = {"base": {}, "best": {}}
        for trial in self.ended:
            if {_WHO, _SEED} <= trial.params.keys():
                by_seed[trial.params[_WHO]][trial.params[_SEED]] = trial.value
        return {who: dict(sorted(values.items())) for who, values in by_seed.items()}

    def _space(self) -> dict[str, Any]:
        from optuna.distributions import CategoricalDistribution

        first = int(self.plan.base.get("seed", 0))
        seeds = tuple(range(first + 1, first + 1 + max(self.plan.seeds, 1)))
        return {_WHO: CategoricalDistribution(("best", "base")), _SEED: CategoricalDistribution(seeds)}


def age(trial: FrozenTrial) -> float:
    """Return the seconds since a trial began."""
    began = trial.datetime_start
    return (datetime.now() - began).total_seconds() if began is not None else 0.0


def state_of(trial: FrozenTrial) -> str:
    """Return how a trial ended: complete, pruned, diverged, failed, lost, running or waiting."""
    if _LOST in trial.user_attrs:
        return "lost"
    if trial.user_attrs.get("ended") == "diverged":
        return "diverged"
    return {"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower())
