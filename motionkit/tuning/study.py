"""A search is one object, `Study`: its base, its plan, its folder, the trials in its storage, and its result.

`open_study` makes it from what was asked for and refuses what cannot be searched before anything is written;
`Study.ask` searches and answers.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import Resolved
from motionkit.errors import MotionkitError
from motionkit.page.wording import count
from motionkit.runs import PAGE, Run, folder_of, locate, write_bytes_atomic
from motionkit.runs.words import typed_flags
from motionkit.tuning.base import Base, open_base
from motionkit.tuning.page import study_page
from motionkit.tuning.plan import BEST_TOML, PLAN, TRIALS, Plan, make_plan, read_plan, read_space, save_plan
from motionkit.tuning.presence import is_held
from motionkit.tuning.processes import default_jobs, run_processes
from motionkit.tuning.progress import Progress
from motionkit.tuning.result import Merge, StudyResult, require_mergeable
from motionkit.tuning.settings import TuneBayesSettings
from motionkit.tuning.storage import delete_studies
from motionkit.tuning.trials import Repeated, Searched, Trials, age
from motionkit.tuning.work import tidy, work

COMMAND = "tune-bayes"

_ELSEWHERE = 3.0
"""Longest wait for trials of other machines, in durations of the longest trial so far."""

Say = Callable[[str], None]
"""Called with a line about what begins, ends, or how far it is."""


@dataclass(frozen=True)
class Answer:
    """What a search says at its end."""

    document: Mapping[str, Any] | None  # The summary document of ``--json``; None if another process has it
    exit_code: int  # 0, or 130 and 143 when a signal stopped it
    tables: Sequence[Mapping[str, Any]] = ()  # For people; empty without a result, as is all below
    lines: Sequence[str] = ()  # The verdict, and what was done
    changes: Sequence[str] = ()  # Changes of the settings file
    next: Sequence[Sequence[str]] = ()  # Commands to type now, each as words


@dataclass(frozen=True)
class Study:
    """A search."""

    base: Base  # Trainer and settings
    plan: Plan  # What all processes of the search agree on, as in the folder's study.json
    folder: Path  # The study folder
    described: Mapping[str, object] = field(default_factory=dict)  # The trainer's plan of a trial
    steps: int = 0  # Steps of a trial; 0 if unknown
    jobs: int = 1  # Processes on this machine

    @classmethod
    def read(cls, folder: Path, code: Collection[str] = ()) -> Study:
        """Return the study of a folder, for a further process of its search.

        Args:
            folder: The study folder.
            code: What was typed and may run code, see `Base.code`.
        """
        plan = read_plan(folder)
        component = plugins.get("trainers", plan.trainer, typed=plan.trainer in code)
        return cls(Base(plan.trainer, component, plan.base, code=frozenset(code)), plan, folder)

    @cached_property
    def trials(self) -> Searched:
        """The trials that search."""
        return Searched(self.plan, self.folder)

    @cached_property
    def seeds(self) -> Repeated:
        """The trials with further seeds."""
        return Repeated(self.trials)

    @property
    def result(self) -> StudyResult:
        """The result of the trials so far, of which one at least has a value."""
        best = self.trials.best
        assert best is not None
        importances = self.trials.importances()
        return StudyResult(self.plan, self.base, self.trials.all, best, self.seeds.values(), importances, self.folder)

    def facts(self) -> dict[str, Any]:
        """Return what a dry run shows."""
        plan = self.plan
        return {
            "trials": plan.trials, "jobs": self.jobs, "sampler": plan.sampler, "pruner": plan.pruner, "why": plan.why,
            "value": plan.value, "watch": plan.watch, "space": plan.space, "trial": plan.trial,
            **{f"{plan.trainer}: {key}": value for key, value in self.described.items()},
        }  # fmt: skip

    def ask(self, resolved: Resolved[TuneBayesSettings], say: Say) -> Answer:
        """Search, write the result into the folder, and return it; or help another process that searches there.

        Args:
            resolved: What was asked for.
            say: Called with lines for people.

        Raises:
            MotionkitError: No trial succeeds, or the storage fails (exit code 1).
        """
        if (self.folder / "run.json").is_file() and is_held(self.folder):
            return self._join(say)
        settings = resolved.settings
        with self._opened(resolved) as run:
            save_plan(run, self.plan)
            self._announce(say)
            result = self._search(run, say)
            if result is None:
                return Answer(run.finish(), run.exit_code)
            result.write()
            write_bytes_atomic(run.artifact(PAGE), study_page(result).encode(errors="replace"))
            merged = result.merge_into(settings.write_config) if settings.write_config is not None else Merge()
            run.annotate(tables=result.stored_tables())
            document = run.finish({**result.document(), **merged.document()})
        lines = [result.verdict, result.counts(), *merged.notes]
        return Answer(document, run.exit_code, result.tables(), lines, merged.lines(), self._next(settings))

    def _join(self, say: Say) -> Answer:
        """Take trials of a search that another process is running, and that one ends."""
        running = replace(self, plan=read_plan(self.folder))
        if running.plan.digest != self.plan.digest:
            raise MotionkitError(
                f"{self.folder} is searched by another process, with other settings or data.",
                fix="choose another --name",
            )
        say(f"{self.folder} is searched by another process; this one takes trials of it, and that one ends it")
        number = work(running.trials, self.base) or work(running.seeds, self.base)
        return Answer(None, 128 + number if number else 0)

    def _opened(self, resolved: Resolved[TuneBayesSettings]) -> Run:
        """Create the run of the search, or open it again."""
        place = resolved.settings.run
        if self.plan.storage:  # before the study folder is made: it may be locked, or hold another study of that name
            if place.overwrite:
                delete_studies(self.plan, self.folder)
            _ = self.trials
        arguments: dict[str, Any] = {"argv": sys.argv, "origins": resolved.origins, "inputs": self.plan.inputs}
        if place.resume is not None or ((self.folder / "run.json").is_file() and not place.overwrite):
            return Run.resume(self.folder, resolved.snapshot(), command=COMMAND, **arguments)
        return Run.create(COMMAND, resolved.snapshot(), out=self.folder, overwrite=place.overwrite, **arguments)

    def _announce(self, say: Say) -> None:
        plan, many = self.plan, count(self.jobs, "process", "processes")
        say(f"{count(plan.trials, 'trial')} of {plan.trainer}, {len(plan.space)} settings, {many}: {self.folder}")
        if plan.trial:
            shown = ", ".join(f"{key} {value}" for key, value in plan.trial.items())
            say(f"trials are shortened by {shown}; --trial-set changes that")

    def _search(self, run: Run, say: Say) -> StudyResult | None:
        """Run the trials, then winner and base with further seeds; None if it was stopped, and can be continued."""
        trials, plan = self.trials, self.plan
        if lost := trials.recover():
            say(f"trials that were cut off are run again: {', '.join(map(str, lost))}")
        trials.begin()
        if not self._run_all(trials, run, say):
            return None
        best = trials.best
        if best is None:
            raise MotionkitError(
                f"no trial of {len(trials.begun)} succeeded.",
                why="; ".join(trials.reasons[:3]),
                fix=f"see {self.folder / TRIALS}",
                code=1,
            )
        for trial in trials.ended:
            if trial.number != best.number:
                tidy(trials.place_of(trial), keep_model=False)
        if plan.seeds and best.params != plan.first:  # if nothing beat the base there is nothing to compare
            self.seeds.recover()
            self.seeds.begin()
            say(f"the best settings and the base with {plan.seeds} further seeds")
            if not self._run_all(self.seeds, run, say):
                return None
        return self.result

    def _run_all(self, trials: Trials, run: Run, say: Say) -> bool:
        """Run trials until none is left, here and on other machines; returns False if that was stopped."""
        progress = Progress(trials, run, say, self.steps)

        def look() -> bool:
            lost = trials.recover()
            progress.tell_running()
            return progress.look() or bool(lost)

        def alive() -> bool:
            progress.tell_running()
            return not run.stop_requested

        if self.jobs > 1:
            run_processes(trials, self.jobs, self.base.code, stopped=lambda: run.signals.received, look=look)
        elif number := work(trials, self.base, alive=alive, told=progress.look):
            run.signals.stop(number)
        announced = False
        while not run.stop_requested:
            longest = max((trial.duration.total_seconds() for trial in trials.ended if trial.duration), default=0.0)
            elsewhere = [trial for trial in trials.running if age(trial) < max(60.0, _ELSEWHERE * longest)]
            if not elsewhere:
                return True
            if not announced:
                say(f"waiting for trials of other machines: {', '.join(str(trial.number) for trial in elsewhere)}")
                announced = True
            time.sleep(0.5)
        return False

    def _next(self, settings: TuneBayesSettings) -> list[list[str]]:
        """Return the commands to type now: the trainer with the best settings, and the search with more trials."""
        lines = []
        if not plugins.is_file(self.base.trainer):  # which is not a command
            code = shlex.split(typed_flags(self.base.table, self.base.command))
            lines.append([*self.base.command.split(), "--config", str(self.folder / BEST_TOML), *code])
        again = settings.typed_again(self.base.code)
        lines.append([COMMAND, "--resume", str(self.folder), *again, "--trials", str(2 * settings.trials)])
        return lines


def open_study(resolved: Resolved[TuneBayesSettings], say: Say) -> Study:
    """Open base, plan and inputs of a search; nothing is written.

    Args:
        resolved: What was asked for.
        say: Called with decisions made on the way.

    Raises:
        MotionkitError: It cannot be searched.
        OSError: An input cannot be read.
    """
    settings, place = resolved.settings, resolved.settings.run
    folder = locate(place.resume)[0] if place.resume is not None else folder_of("tune", "runs", place.out, place.name)
    base = open_base(
        settings.trainer, settings.base, settings.base_set, settings.values(),
        typed=resolved.given.get("trainer", False), repeated=_file_of(resolved, "base_set"),
    )  # fmt: skip
    for note in base.notes:
        say(note)
    base, trial = base.read(settings.trial_set, repeated=_file_of(resolved, "trial_set"))
    if settings.trial_steps:
        trial["run.num_steps"] = settings.trial_steps
    known = (folder / PLAN).is_file() and not place.overwrite
    study = read_plan(folder).study if known else place.name or folder.name
    space = read_space(settings.space) if settings.space is not None else None
    base, plan, notes = make_plan(base, settings, study=study, trial=trial, space=space)
    for note in notes:
        say(note)
    if settings.write_config is not None:
        require_mergeable(settings.write_config)
    say(f"sampler {plan.sampler}, pruner {plan.pruner}: {plan.why}")
    first, trainer = base.prepared(plan.trial)
    with plugins.catching():
        described = dict(trainer.describe())
    plan = plan.model_copy(update={"inputs": dict(trainer.inputs or {})})
    jobs = settings.jobs or default_jobs(str(described.get("device", "")))
    steps = (trainer.settings or first.settings).run.num_steps or 0  # a trainer may set its length
    return Study(base, plan, folder, described, steps, jobs)


def _file_of(resolved: Resolved[TuneBayesSettings], key: str) -> str:
    """Return the file that holds a setting; empty if it was typed."""
    return "" if resolved.given.get(key, True) else f"{key} of {resolved.origins[key]}"
