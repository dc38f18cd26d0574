"""The work of each process of a search: take the next trial, train, record the value, until none is left.

`Worker` does it. Below are the trials of a study (further seeds, lost ones, the best), then one trial, `run_trial`: a
training run in its own folder, followed while it runs, then measured and cleaned up.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.runs import Run, hold, peek
from motionkit.tuning.base import Base, flat, value_at
from motionkit.tuning.plan import SEEDS, TRIALS, WORKERS, Plan, distributions
from motionkit.tuning.storage import (
    LOST,
    PLACE,
    make_pruner,
    make_sampler,
    next_place,
    open_study,
    seeds_of,
    storage_errors,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

Report = Callable[[int, float], bool]
"""Called with the count of intermediate values, from 1, and the newest one; returns whether to go on."""

KILLED = "its process was killed"
"""Reason of a lost trial."""

_UNNAMED = 60.0
"""Seconds after which a trial without a worker is lost."""

_WHO, _SEED = "settings", "seed"
"""Parameters of a trial with a further seed."""

_HOPELESS = 5
"""First failures in a row after which the search gives up."""


@dataclass(frozen=True)
class Worker:
    """A process that runs trials."""

    plan: Plan  # The search
    base: Base  # Trainer and settings
    folder: Path  # The study folder
    alive: Callable[[], bool] = lambda: True  # Whether the results are still wanted
    told: Callable[[], object] = lambda: None  # Called after each trial

    def search(self) -> int:
        """Run trials until there are enough; returns the signal that stopped them, or 0.

        Raises:
            MotionkitError: The storage fails (exit code 1).
        """
        return self._work(open_study(self.plan, self.folder), self._claim, self._do)

    def repeat(self) -> int:
        """Run the trials of the second study, winner and base with other seeds; returns as `search` does."""
        return self._work(open_seeds(self.plan, self.folder), self._claim_seed, self._do_seed)

    def _work(self, study: Study, claim: Callable[[Study], Trial | None], do: Callable[[Trial], Ended]) -> int:
        with _present(self.folder) as name:
            while self.alive():
                with storage_errors(self.plan.storage or str(self.folder)), _alone(self.folder):
                    trial = claim(study)
                    if trial is not None:
                        trial.set_user_attr("worker", name)
                if trial is None:
                    return 0
                ended = do(trial)
                with _late(), storage_errors(self.plan.storage or str(self.folder)):
                    tell(study, trial, ended)
                self.told()
                if ended.state == "interrupted":
                    return ended.signal or 15
        return 15

    def _claim(self, study: Study) -> Trial | None:
        trials = study.get_trials(deepcopy=False)
        if len(counted(trials)) >= self.plan.trials or hopeless(trials):
            return None
        place = next_place(trials)
        study.sampler, study.pruner = make_sampler(self.plan, place), make_pruner(self.plan, place)
        trial = study.ask(distributions(self.plan.dimensions))
        trial.set_user_attr(PLACE, place)
        return trial

    def _do(self, trial: Trial) -> Ended:
        def report(number: int, value: float) -> bool:
            trial.report(value, number)
            return not trial.should_prune()

        return run_trial(
            self.base, {**self.plan.trial, **trial.params}, trial_folder(self.folder, trial.number),
            value=self.plan.value, watch=self.plan.watch, report=report, alive=self.alive,
        )  # fmt: skip

    def _claim_seed(self, study: Study) -> Trial | None:
        from optuna.trial import TrialState

        if not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            return None
        return study.ask(seed_space(self.plan))

    def _do_seed(self, trial: Trial) -> Ended:
        who, seed = trial.params[_WHO], trial.params[_SEED]
        place = seed_folder(self.folder, trial.params)
        assert place is not None
        best = best_trial(open_study(self.plan, self.folder), self.plan)
        values = best.params if who == "best" and best is not None else self.plan.first
        return run_trial(
            self.base, {**self.plan.trial, **values, "seed": seed}, place,
            value=self.plan.value, watch=self.plan.watch, alive=self.alive,
        )  # fmt: skip


def trial_folder(folder: Path, number: int) -> Path:
    """Return the run folder of a trial of a study folder."""
    return folder / TRIALS / f"trial-{number:05d}"


def seed_folder(folder: Path, params: Mapping[str, Any]) -> Path | None:
    """Return the run folder of a trial with a further seed; None while its parameters are not drawn."""
    if not {_WHO, _SEED} <= params.keys():
        return None
    return folder / SEEDS / f"{params[_WHO]}-seed-{params[_SEED]}"


def open_seeds(plan: Plan, folder: Path) -> Study:
    """Open the study of further seeds."""
    return open_study(plan, folder, seeds_of(plan))


def seed_space(plan: Plan) -> dict[str, Any]:
    """Return Optuna's distributions of the repetitions: which settings, and which seed."""
    from optuna.distributions import CategoricalDistribution

    first = int(plan.base.get("seed", 0))
    seeds = tuple(range(first + 1, first + 1 + max(plan.seeds, 1)))
    return {_WHO: CategoricalDistribution(("best", "base")), _SEED: CategoricalDistribution(seeds)}


def list_seeds(plan: Plan, folder: Path) -> None:
    """Queue base and best with every further seed, unless they are queued already."""
    study = open_seeds(plan, folder)
    queued = [trial.system_attrs.get("fixed_params") for trial in study.get_trials(deepcopy=False)]
    for seed in seed_space(plan)[_SEED].choices if plan.seeds else ():
        for who in ("base", "best"):
            params = {_WHO: who, _SEED: seed}
            if params not in queued:
                study.enqueue_trial(params)


def seed_values(plan: Plan, folder: Path) -> dict[str, dict[int, float | None]]:
    """Return the values of ``base`` and ``best`` with other seeds, by seed; None for failed ones."""
    by_seed: dict[str, dict[int, float | None]] = {"base": {}, "best": {}}
    for trial in open_seeds(plan, folder).get_trials(deepcopy=False):
        if trial.state.is_finished() and LOST not in trial.user_attrs and {_WHO, _SEED} <= trial.params.keys():
            by_seed[trial.params[_WHO]][trial.params[_SEED]] = trial.value
    return {who: dict(sorted(values.items())) for who, values in by_seed.items()}


def tell(study: Study, trial: Trial, ended: Ended) -> None:
    """Record how a trial ended; an interrupted one is queued again."""
    from optuna.trial import TrialState

    if ended.state == "interrupted":
        requeue(study, study.trials[trial.number], ended.reason)
        return
    if ended.reason:
        trial.set_user_attr("reason", ended.reason[:2000])
    if ended.state == "complete":
        study.tell(trial, ended.value)
    elif ended.state in ("pruned", "diverged"):
        trial.set_user_attr("ended", ended.state)
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, state=TrialState.FAIL)


def requeue(study: Study, trial: FrozenTrial, reason: str) -> None:
    """Mark a running trial as lost and queue its settings again.

    The settings are queued first: after a kill in between, the trial is found again and queued once, by its number.
    Settings whose process dies a second time have failed, since they may be the cause.
    """
    from optuna.trial import TrialState

    if "again" in trial.user_attrs and reason == KILLED:
        study._storage.set_trial_user_attr(trial._trial_id, "reason", f"{reason}, twice with these settings")
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        return
    queued = [queued_trial.user_attrs.get("again") for queued_trial in study.get_trials(deepcopy=False)]
    if trial.number not in queued:
        kept: dict[str, Any] = {"again": trial.number}
        params = dict(trial.system_attrs.get("fixed_params", {}))
        if PLACE in trial.user_attrs:  # otherwise it was killed before its settings were drawn
            kept[PLACE] = trial.user_attrs[PLACE]
            params |= trial.params
        study.enqueue_trial(params, user_attrs=kept)
    study._storage.set_trial_user_attr(trial._trial_id, LOST, reason or "its process ended")
    study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def recover(study: Study, folder: Path) -> list[int]:
    """Queue running trials again if their process on this disk is dead; returns their numbers."""
    from optuna.trial import TrialState

    lost = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        name = trial.user_attrs.get("worker")
        place = folder / WORKERS / str(name)
        if name is None:  # killed before its worker was recorded
            began = trial.datetime_start
            dead = began is not None and (datetime.now() - began).total_seconds() > _UNNAMED
        else:
            dead = isinstance(name, str) and "/" not in name and place.is_dir() and not _is_held(place)
        if dead:
            requeue(study, trial, KILLED)
            lost.append(trial.number)
    return lost


def counted(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that are neither lost nor waiting."""
    return [trial for trial in trials if LOST not in trial.user_attrs and trial.state.name != "WAITING"]


def hopeless(trials: list[FrozenTrial]) -> bool:
    """Whether at least `_HOPELESS` trials have ended and all of them failed."""
    ended = [trial for trial in counted(trials) if trial.state.is_finished()]
    return len(ended) >= _HOPELESS and all(trial.state.name == "FAIL" for trial in ended)


def best_trial(study: Study, plan: Plan) -> FrozenTrial | None:
    """Return the finished trial with the best value, the earlier of equals; trials of other settings do not count."""
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.params.keys() == plan.space.keys()]
    done = [trial for trial in complete if trial.state.name == "COMPLETE"]
    sign = 1.0 if plan.direction == "maximize" else -1.0
    return max(done, key=lambda trial: (sign * float(trial.value or 0.0), -trial.number), default=None)


def tidy_trials(plan: Plan, folder: Path) -> None:
    """Delete the models of all ended trials except the best."""
    study = open_study(plan, folder)
    best = best_trial(study, plan)
    for trial in study.get_trials(deepcopy=False):
        if trial.state.is_finished() and (best is None or trial.number != best.number):
            tidy(trial_folder(folder, trial.number), keep_model=False)


@dataclass(frozen=True)
class Ended:
    """How a trial ended."""

    state: str  # ``complete``, ``pruned`` (stopped early), ``diverged``, ``failed`` or ``interrupted``
    value: float | None = None  # The value, if the trial is complete
    reason: str = ""  # Why there is none
    signal: int = 0  # The signal that stopped it, or 0


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
    from motionkit.training.execute import build_trainer, run_trainer

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
        with apart():
            resolved = base.with_values({**values, **place})
            trainer = build_trainer(base.command, base.component, resolved.settings)
            with plugins.catching():
                trainer.prepare()
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


def apart() -> AbstractContextManager[None]:
    """Keep the log of a trial out of the console and the study's log; it goes to the trial's log.txt."""
    return heard_by([logging.NullHandler()])


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
def _present(folder: Path) -> Iterator[str]:
    """Hold a lock that shows other processes that this one is alive; yields its name."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    place = folder / WORKERS / name
    place.mkdir(parents=True)
    lock = hold(place)
    try:
        yield name
    finally:
        lock.close()
        shutil.rmtree(place, ignore_errors=True)


def is_busy(folder: Path) -> bool:
    """Whether another process holds the run folder of a study."""
    return (folder / "run.json").is_file() and _is_held(folder)


def _is_held(folder: Path) -> bool:
    try:
        hold(folder).close()
    except MotionkitError:
        return True
    return False


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process of this folder at a time take a trial, so that none is taken beyond the total."""
    from filelock import FileLock

    with FileLock(str(folder / WORKERS / "ask.lock")):
        yield


@contextmanager
def _late() -> Iterator[None]:
    try:
        yield
    except MotionkitError as error:
        raise error.as_late() from error
