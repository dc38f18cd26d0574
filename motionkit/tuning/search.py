"""A complete search: trials, then winner and base with further seeds, then the result.

`search` does it, and `_Teller` reports what ends. Below it are the several processes that work on one search.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from motionkit.errors import MotionkitError
from motionkit.page.wording import duration
from motionkit.runs import Run
from motionkit.tracking import last_metrics
from motionkit.tuning.base import Base
from motionkit.tuning.plan import WORKERS, Plan
from motionkit.tuning.result import StudyResult
from motionkit.tuning.storage import LOST, PLACE, open_study, place_of
from motionkit.tuning.work import (
    Worker,
    best_trial,
    counted,
    hopeless,
    list_seeds,
    open_seeds,
    recover,
    seed_folder,
    seed_values,
    tidy_trials,
    trial_folder,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

_POLL = 0.3
"""Seconds between looks at the processes."""

_GRACE = 60.0
"""Seconds for processes to save their work after a signal."""

_ELSEWHERE = 3.0
"""Longest wait for trials of other machines, in durations of the longest trial so far."""

_EVERY = 15.0
"""Seconds without output after which the progress of running trials is printed."""


@dataclass(frozen=True)
class Finished:
    """A trial that has ended, as reported to the user."""

    what: str  # ``trial 7`` or ``best, seed 2``
    done: int  # How many have ended
    total: int  # How many there will be
    value: float | None  # Its value; None without
    note: str  # Why there is no value, or the best so far
    seconds: float | None  # How long it took; None if unknown
    left: float | None  # Estimated seconds left; None if unknown


def search(
    plan: Plan,
    base: Base,
    run: Run,
    *,
    jobs: int,
    tell: Callable[[Finished], None],
    say: Callable[[str], None],
    steps: int = 0,
) -> StudyResult | None:
    """Search in the folder of an open run.

    Args:
        plan: As in the folder's study.json.
        base: Trainer and settings.
        run: The run; its folder is the study folder.
        jobs: Number of processes.
        tell: Called with each trial that ends.
        say: Called with lines about what begins and how far it is.
        steps: Steps of a trial; 0 if unknown.

    Returns:
        The result; None if it was stopped, in which case ``--resume`` continues it.

    Raises:
        MotionkitError: No trial succeeds, or the storage fails (exit code 1).
    """
    folder = run.directory
    study = open_study(plan, folder)
    lost = recover(study, folder)
    if lost:
        say(f"trials that were cut off are run again: {', '.join(map(str, lost))}")
    recover(open_seeds(plan, folder), folder)
    if not study.get_trials(deepcopy=False):
        study.enqueue_trial(plan.first, user_attrs={PLACE: 0})
    teller = _Teller(plan, study, run, tell, say, steps)
    _phase(plan, base, run, "search", jobs, teller)
    if run.stop_requested:
        return None
    _wait(study, run, say)
    trials = study.get_trials(deepcopy=False)
    best = best_trial(study, plan)
    if best is None:
        reasons = list(
            dict.fromkeys(str(trial.user_attrs.get("reason", "no reason given")) for trial in counted(trials))
        )
        why = "; ".join(reasons[:3])
        raise MotionkitError(
            f"no trial of {len(counted(trials))} succeeded.", why=why, fix=f"see {folder / 'trials'}", code=1
        )
    if hopeless(trials):
        raise MotionkitError("the first trials all failed.", why=str(trials[0].user_attrs.get("reason")), code=1)
    tidy_trials(plan, folder)
    if plan.seeds and best.params != plan.first:  # if nothing beat the base there is nothing to compare
        list_seeds(plan, folder)
        say(f"the best settings and the base with {plan.seeds} further seeds")
        teller = _Teller(plan, open_seeds(plan, folder), run, tell, say, steps, seeds=True)
        _phase(plan, base, run, "seeds", jobs, teller)
        if run.stop_requested:
            return None
        _wait(open_seeds(plan, folder), run, say)
    return StudyResult(plan, base, [*study.get_trials(deepcopy=False)], seed_values(plan, folder), folder)


def _phase(plan: Plan, base: Base, run: Run, phase: str, jobs: int, teller: _Teller) -> None:
    folder = run.directory
    if jobs > 1:

        def look() -> bool:
            lost = recover(teller.study, folder)
            teller.tell_running()
            return teller.look() or bool(lost)

        def left() -> bool:
            trials = teller.study.get_trials(deepcopy=False)
            if phase == "seeds":
                return any(trial.state.name == "WAITING" for trial in trials)
            return len(counted(trials)) < plan.trials and not hopeless(trials)

        run_processes(folder, phase, jobs, base.code, stopped=lambda: run.signals.received, look=look, left=left)
        return

    def alive() -> bool:
        teller.tell_running()
        return not run.stop_requested

    worker = Worker(plan, base, folder, alive=alive, told=teller.look)
    number = worker.repeat() if phase == "seeds" else worker.search()
    if number:
        run.signals.stop(number)


def _wait(study: Study, run: Run, say: Callable[[str], None]) -> None:
    """Wait for trials of other machines, up to `_ELSEWHERE` times the longest duration so far."""
    announced = False
    while not run.stop_requested:
        trials = study.get_trials(deepcopy=False)
        longest = max((trial.duration.total_seconds() for trial in trials if trial.duration is not None), default=0.0)
        limit = max(60.0, _ELSEWHERE * longest)
        running = [trial for trial in trials if trial.state.name == "RUNNING" and _age(trial) < limit]
        if not running:
            return
        if not announced:
            say(f"waiting for trials of other machines: {', '.join(str(trial.number) for trial in running)}")
            announced = True
        time.sleep(0.5)


def _age(trial: FrozenTrial) -> float:
    from datetime import datetime

    began = trial.datetime_start
    return (datetime.now() - began).total_seconds() if began is not None else 0.0


class _Teller:
    """Reports ended trials and the progress of running ones to the user, and the values to metrics.jsonl."""

    def __init__(
        self, plan: Plan, study: Study, run: Run, tell: Callable[[Finished], None], say: Callable[[str], None],
        steps: int, *, seeds: bool = False,
    ) -> None:  # fmt: skip
        self.study = study
        self._plan, self._run, self._tell, self._seeds = plan, run, tell, seeds
        self._say_line, self._steps = say, steps
        self._spoken = time.monotonic()
        ended = [trial for trial in counted(study.get_trials(deepcopy=False)) if trial.state.is_finished()]
        self._known = {trial.number for trial in ended}
        self._done = 0
        self._begun = time.monotonic()
        for count, trial in enumerate(ended, start=1):
            self._log(count, trial)

    def look(self) -> bool:
        """Report trials that ended since the last call; returns whether there are any."""
        news = False
        for trial in self.study.get_trials(deepcopy=False):
            if trial.number in self._known or not trial.state.is_finished():
                continue
            self._known.add(trial.number)
            if LOST in trial.user_attrs:
                continue
            news = True
            self._done += 1
            self._say(trial)
        return news

    def tell_running(self) -> None:
        """Report the progress of trials that run on this disk, if nothing was printed for `_EVERY` seconds."""
        from optuna.trial import TrialState

        now = time.monotonic()
        if now - self._spoken < _EVERY:
            return
        self._spoken = now
        trials = self.study.get_trials(deepcopy=False)
        parts, fresh = [], 0
        for trial in trials:
            folder = self._run.directory
            place = seed_folder(folder, trial.params) if self._seeds else trial_folder(folder, trial.number)
            if trial.state != TrialState.RUNNING or place is None:
                continue
            at = last_metrics(place / "metrics.jsonl").get("step", 0)
            fresh += at if isinstance(at, int) else 0
            parts.append(f"{self._name(trial)}: step {at}" + (f" of {self._steps}" if self._steps else ""))
        if not parts:
            return
        left = ""
        if self._steps and fresh:
            done = self._done + fresh / self._steps
            ended = sum(trial.state.is_finished() for trial in counted(trials))
            rest = self._total(trials) - ended - fresh / self._steps
            left = f"  eta {duration(max(0.0, rest) * (now - self._begun) / done)}"
        self._say_line(f"{', '.join(parts)}{left}")

    def _name(self, trial: FrozenTrial) -> str:
        if self._seeds:
            return f"{trial.params.get('settings')}, seed {trial.params.get('seed')}"
        return f"trial {trial.number}{', the base' if place_of(trial) == 0 else ''}"

    def _total(self, trials: Sequence[FrozenTrial]) -> int:
        return len([trial for trial in trials if LOST not in trial.user_attrs]) if self._seeds else self._plan.trials

    def _say(self, trial: FrozenTrial) -> None:
        self._spoken = time.monotonic()
        trials = self.study.get_trials(deepcopy=False)
        done = sum(entry.state.is_finished() for entry in counted(trials))
        total = self._total(trials)
        rate = self._done / max(time.monotonic() - self._begun, 1e-6)
        self._log(done, trial)
        note = ""
        if not self._seeds and (best := best_trial(self.study, self._plan)) is not None:
            note = f"best {best.value:.4f} (trial {best.number})"
        if reason := trial.user_attrs.get("reason"):
            note = f"{reason}  {note}".rstrip()
        seconds = trial.duration.total_seconds() if trial.duration is not None else None
        left = (total - done) / rate if done < total else None
        value = trial.value if trial.state.name == "COMPLETE" else None
        self._tell(Finished(self._name(trial), done, total, value, note, seconds, left))

    def _log(self, count: int, trial: FrozenTrial) -> None:
        if self._seeds or trial.state.name != "COMPLETE" or trial.value is None:
            return
        best = best_trial(self.study, self._plan)
        values = {"tune/value": trial.value}
        if best is not None and best.value is not None:
            values["tune/best"] = best.value
        self._run.log(count, values)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_jobs(device: str) -> int:
    """Return how many processes search by default: two, or one on one core or a GPU."""
    return 1 if cores() < 2 or not device.startswith(("cpu", "auto")) else 2


def run_processes(
    folder: Path,
    phase: str,
    jobs: int,
    code: Collection[str] = (),
    *,
    stopped: Callable[[], int],
    look: Callable[[], bool],
    left: Callable[[], bool],
) -> None:
    """Run workers until no work is left; new ones replace those that died.

    Args:
        folder: The study folder.
        phase: ``search`` or ``seeds``.
        jobs: Number of processes.
        code: Files and options that may run code, see `Base.code`.
        stopped: Returns the signal that asks to stop, or 0.
        look: Polled; returns whether a trial has ended since the last call.
        left: Returns whether there is work left.

    Raises:
        MotionkitError: All of them died before a trial ended (exit code 1).
    """
    threads = max(1, cores() // jobs)
    if (limit := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        threads = min(threads, max(1, int(limit)))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    (folder / WORKERS).mkdir(exist_ok=True)
    log = folder / WORKERS / f"{phase}.log"
    while left():
        progressed = False
        with log.open("ab") as output:
            # A new session for each: Ctrl-C reaches them once, through this process.
            running = [
                subprocess.Popen(
                    [sys.executable, "-m", "motionkit.tuning.worker", str(folder), phase, *code],
                    env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                )
                for _ in range(jobs)
            ]  # fmt: skip
        try:
            while any(process.poll() is None for process in running):
                time.sleep(_POLL)
                progressed |= look()
                if number := stopped():
                    _end(running, number)
                    look()
                    return
        except BaseException:
            _end(running, signal.SIGTERM)
            raise
        progressed |= look()
        if not progressed and left():
            codes = [process.returncode for process in running]
            lines = log.read_text(errors="replace").strip().splitlines()
            why = lines[-1] if lines else f"exit codes {', '.join(map(str, codes))}"
            raise MotionkitError("the processes of the search died.", why=why, fix=f"see {log}", code=1)


def _end(running: list[subprocess.Popen[bytes]], number: int) -> None:
    for process in running:
        if process.poll() is None:
            process.send_signal(number)
    until = time.monotonic() + _GRACE
    for process in running:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
