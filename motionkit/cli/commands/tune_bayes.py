"""``motionkit tune-bayes``, the same as ``motionkit tune --bayes``: a search over a trainer's settings.

`TuneBayesSettings` are its settings; `run_tune` opens the base and the plan, searches, and prints the result.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit import plugins
from motionkit.cli import output
from motionkit.cli._errors import unreadable
from motionkit.cli.settings import add_command, show_plan
from motionkit.config import Cli, Resolved, Settings
from motionkit.errors import MotionkitError
from motionkit.page.wording import count, duration
from motionkit.plugins import packages
from motionkit.runs import PAGE, Run, folder_of, locate, logging_into, write_bytes_atomic
from motionkit.runs.words import typed_flags
from motionkit.training.settings import PlaceSettings
from motionkit.tuning.base import Base, open_base
from motionkit.tuning.plan import BEST_TOML, PLAN, Plan, Pruner, Sampler, make_plan, read_plan, read_space, save_plan
from motionkit.tuning.result import StudyResult, diff_lines, study_page, write_config
from motionkit.tuning.search import Finished, default_jobs, search
from motionkit.tuning.storage import delete_studies, open_study
from motionkit.tuning.work import Worker, is_busy

_COMMAND = "tune-bayes"


class TuneBayesSettings(Settings):
    """Settings of `motionkit tune-bayes`."""

    run: PlaceSettings = PlaceSettings()
    trainer: Annotated[str, Cli("--trainer")] = Field(
        packages.default("tune"), description="Trainer whose settings are searched."
    )
    base: Annotated[tuple[Path, ...], Cli("--base")] = Field(
        (), description="Settings file or run of the trainer to begin with, repeatable; trial 0 is trained with it."
    )
    base_set: Annotated[tuple[str, ...], Cli("--base-set")] = Field(
        (), description="KEY=VALUE of the trainer, repeatable."
    )
    data: Annotated[tuple[str, ...], Cli("--data")] = Field(
        (), description=f"Data of the trainer, repeatable; its own default{packages.words('data of a search')} without."
    )
    trials: Annotated[int, Cli("--trials")] = Field(50, ge=1, le=100_000, description="Trials, trial 0 included.")
    seeds: Annotated[int, Cli("--seeds")] = Field(
        3, ge=0, le=100, description="Further seeds that the winner and the base are trained with."
    )
    trial_steps: Annotated[int, Cli("--trial-steps")] = Field(
        0, ge=0, description="Training steps of a trial; 0: as many as the settings say."
    )
    trial_set: Annotated[tuple[str, ...], Cli("--trial-set")] = Field(
        (), description="KEY=VALUE for trials alone, repeatable, such as train.stride=8; the result does not hold it."
    )
    space: Annotated[Path | None, Cli("--space")] = Field(
        None, description='File of what is searched: "key" = [low, high, "log"|"int"], or a list of choices.'
    )
    value: Annotated[str, Cli("--value")] = Field(
        "", description="Number of the trainer's --json document that decides, dotted; default: the trainer's own."
    )
    watch: Annotated[str | None, Cli("--watch")] = Field(
        None, description="Metric that tells the value on the way, for pruning; default: the trainer's own."
    )
    direction: Annotated[Literal["maximize", "minimize"], Cli("--direction")] = Field(
        "maximize", description="Which values are better."
    )
    sampler: Annotated[Sampler, Cli("--sampler")] = Field(
        "auto", description="auto: gp for at most 20 numbers and 100 trials without pruning, where scipy is; else tpe."
    )
    pruner: Annotated[Pruner, Cli("--pruner")] = Field(
        "auto", description="Ends trials early that fall behind; auto: hyperband with tpe, median with random."
    )
    storage: Annotated[str, Cli("--storage")] = Field(
        "", description="Optuna storage URL, for several machines; default: a journal in the study folder."
    )
    jobs: Annotated[int, Cli("--jobs")] = Field(
        0, ge=0, le=1024, description="Processes on this machine; 0: 2, or 1 on one core or a GPU."
    )
    seed: Annotated[int, Cli("--seed", panel="Run")] = Field(
        0, ge=0, lt=2**63, description="Seed of the search and of every trial."
    )
    device: Annotated[str | None, Cli("--device", panel="Run")] = Field(None, description="Device of the trainer.")
    write_config: Annotated[Path | None, Cli("--write-config")] = Field(
        None, description="Settings file that the result is merged into; the diff is printed. Comments stay in a copy."
    )


def run_tune(resolved: Resolved[TuneBayesSettings], *, dry_run: bool, as_json: bool) -> None:
    """Search and print the result."""
    settings = resolved.settings
    begun = time.monotonic()
    output.say(f"{_COMMAND}: loading the settings of {settings.trainer}, torch and data")
    folder = _folder(settings)
    base = _base(resolved)
    for note in base.notes:
        output.say(note)
    plan, base, notes = _plan(resolved, base, folder)
    for note in notes:
        output.say(note)
    if settings.write_config is not None:
        _refuse_config(settings.write_config)
    output.say(f"sampler {plan.sampler}, pruner {plan.pruner}: {plan.why}")
    described, inputs, steps = _prepare(base, plan)
    plan = plan.model_copy(update={"inputs": inputs})
    output.say(f"{_COMMAND}: loaded in {time.monotonic() - begun:.1f} s")
    jobs = settings.jobs or default_jobs(str(described.get("device", "")))
    if dry_run:
        facts = {
            "trials": plan.trials, "jobs": jobs, "sampler": plan.sampler, "pruner": plan.pruner, "why": plan.why,
            "value": plan.value, "watch": plan.watch, "space": plan.space, "trial": plan.trial,
            **{f"{plan.trainer}: {key}": value for key, value in described.items()},
        }  # fmt: skip
        show_plan(_COMMAND, resolved, facts, as_json=as_json)
        return
    if is_busy(folder):
        _join(plan, base, folder)
        return
    if plan.storage:  # before the study folder is made: it may be locked, or hold another study of that name
        if settings.run.overwrite:
            delete_studies(plan, folder)
        open_study(plan, folder)
    _search(resolved, plan, base, folder, jobs, steps, as_json=as_json)


def _folder(settings: TuneBayesSettings) -> Path:
    place = settings.run
    if place.resume is not None:
        return locate(place.resume)[0]
    return folder_of("tune", "runs", place.out, place.name)


def _base(resolved: Resolved[TuneBayesSettings]) -> Base:
    settings = resolved.settings
    values: dict[str, Any] = {}
    if settings.data:
        values["data"] = list(settings.data)
    if settings.device is not None:
        values["device"] = settings.device
    if settings.seed:
        values["seed"] = settings.seed
    return open_base(
        settings.trainer, settings.base, settings.base_set, values, typed=resolved.given.get("trainer", False),
        repeated=_repeated(resolved, "base_set"),
    )  # fmt: skip


def _repeated(resolved: Resolved[TuneBayesSettings], key: str) -> str:
    """Return the file of a setting; empty if it was typed."""
    return "" if resolved.given.get(key, True) else f"{key} of {resolved.origins[key]}"


def _plan(resolved: Resolved[TuneBayesSettings], base: Base, folder: Path) -> tuple[Plan, Base, list[str]]:
    settings = resolved.settings
    base, trial = base.read(settings.trial_set, repeated=_repeated(resolved, "trial_set"))
    if settings.trial_steps:
        trial["run.num_steps"] = settings.trial_steps
    known = (folder / PLAN).is_file() and not settings.run.overwrite
    return make_plan(
        base, study=read_plan(folder).study if known else settings.run.name or folder.name, trials=settings.trials,
        space=read_space(settings.space) if settings.space is not None else None, value=settings.value,
        watch=settings.watch, direction=settings.direction, trial=trial, seeds=settings.seeds, seed=settings.seed,
        sampler=settings.sampler, pruner=settings.pruner, storage=settings.storage,
    )  # fmt: skip


def _prepare(base: Base, plan: Plan) -> tuple[dict[str, object], dict[str, str], int]:
    """Open the inputs once, so that their errors are reported before anything is written.

    Returns:
        The trainer's plan, fingerprints of its inputs, and the steps of a trial with the base settings; 0 if unknown.
    """
    from motionkit.training.execute import build_trainer

    resolved = base.with_values({**plan.trial})
    trainer = build_trainer(base.command, base.component, resolved.settings)
    try:
        with plugins.catching():
            trainer.prepare()
            described = dict(trainer.describe())
            settings = trainer.settings or resolved.settings  # a trainer may set its length
            return described, dict(trainer.inputs or {}), settings.run.num_steps or 0
    except OSError as error:
        raise unreadable(error) from error


def _join(plan: Plan, base: Base, folder: Path) -> None:
    """Join a search that another process is running."""
    if read_plan(folder).digest != plan.digest:
        raise MotionkitError(
            f"{folder} is searched by another process, with other settings or data.", fix="choose another --name"
        )
    output.say(f"{folder} is searched by another process; this one takes trials of it, and that one ends it")
    worker = Worker(read_plan(folder), base, folder)
    number = worker.search() or worker.repeat()
    if number:
        raise typer.Exit(128 + number)


def _search(
    resolved: Resolved[TuneBayesSettings], plan: Plan, base: Base, folder: Path, jobs: int, steps: int, *, as_json: bool
) -> None:
    run = _open_run(resolved, folder, plan.inputs)
    result: StudyResult | None = None
    with run:
        save_plan(run, plan)
        many = count(jobs, "process", "processes")
        output.say(f"{count(plan.trials, 'trial')} of {plan.trainer}, {len(plan.space)} settings, {many}: {folder}")
        if plan.trial:
            shown = ", ".join(f"{key} {value}" for key, value in plan.trial.items())
            output.say(f"trials are shortened by {shown}; --trial-set changes that")
        result = search(plan, base, run, jobs=jobs, tell=_tell, say=output.say, steps=steps)
        parts: dict[str, Any] = {}
        changes: list[tuple[str, Any, Any]] = []
        closing: list[str] = []
        if result is not None:
            result.write()
            write_bytes_atomic(run.artifact(PAGE), study_page(result).encode(errors="replace"))
            parts = result.document()
            if (target := resolved.settings.write_config) is not None:
                changes, closing = write_config(target, result)
                parts["written"] = {"path": str(target), "changes": [list(change) for change in changes]}
            run.annotate(
                tables=[
                    {**table, "rows": [list(map(_plain, row)) for row in table["rows"]]} for table in result.tables()
                ]
            )
        document = run.finish(parts)
    with logging_into(folder):
        if result is not None:
            _show(result, resolved.settings, folder, changes, closing, as_json=as_json)
    output.emit(document, json=as_json)
    if run.exit_code:
        raise typer.Exit(run.exit_code)


def _open_run(resolved: Resolved[TuneBayesSettings], folder: Path, inputs: Mapping[str, str]) -> Run:
    place = resolved.settings.run
    exists = (folder / "run.json").is_file() and not place.overwrite
    arguments: dict[str, Any] = {"argv": sys.argv, "origins": resolved.origins, "inputs": inputs}
    if place.resume is not None or exists:
        return Run.resume(folder, resolved.snapshot(), command=_COMMAND, **arguments)
    return Run.create(_COMMAND, resolved.snapshot(), out=folder, overwrite=place.overwrite, **arguments)


def _tell(finished: Finished) -> None:
    value = f"{finished.value:.4f}" if finished.value is not None else "no value"
    parts = [f"{finished.done:>{len(str(finished.total))}}/{finished.total}", f"{finished.what}: {value}"]
    if finished.note:
        parts.append(finished.note)
    if finished.seconds is not None:
        parts.append(duration(finished.seconds))
    if finished.left is not None:
        parts.append(f"eta {duration(finished.left)}")
    output.say("  ".join(parts))


def _show(
    result: StudyResult,
    settings: TuneBayesSettings,
    folder: Path,
    changes: list[tuple[str, Any, Any]],
    closing: list[str],
    *,
    as_json: bool,
) -> None:
    if not as_json:
        output.tables(result.tables())
    output.say(result.verdict)
    output.say(result.counts())
    for line in closing:
        output.say(line)
    for line in diff_lines(changes):
        output.say(f"  {line}", whole=True)
    output.say(f"page: {folder / PAGE}")
    lines = []
    if not plugins.is_file(settings.trainer):  # which is not a command
        code = shlex.split(typed_flags(result.base.table, result.base.command))
        lines.append([*result.base.command.split(), "--config", str(folder / BEST_TOML), *code])
    trials = ["--trials", str(2 * settings.trials)]
    lines.append([_COMMAND, "--resume", str(folder), *_code_again(settings, result.base.code), *trials])
    for line in output.as_next([shlex.join(["motionkit", *words]) for words in lines]):
        output.say(line, whole=True)


def _code_again(settings: TuneBayesSettings, code: Collection[str]) -> list[str]:
    """Return the flags that must be typed again to continue, since they run code."""
    options = {entry.partition("=")[0] for entry in code}
    words = ["--trainer", settings.trainer] if plugins.is_file(settings.trainer) else []
    for flag, sets in (("--base-set", settings.base_set), ("--trial-set", settings.trial_set)):
        parts = [part for entry in sets for part in re.split("[=,]", entry)]
        if any(plugins.is_file(part) or part.strip() in options for part in parts):
            words += [word for entry in sets for word in (flag, entry)]
    return words


def _refuse_config(path: Path) -> None:
    """Refuse a settings file that cannot be written, before anything is trained."""
    from motionkit.clips.profile.settings_file import read_settings
    from motionkit.runs import require_writable

    read_settings(path)
    require_writable(path)


def _plain(value: object) -> object:
    return value if isinstance(value, (int, float, str)) else str(value)


def register(app: typer.Typer) -> None:
    """Add the command."""

    def tune_bayes(settings: TuneBayesSettings) -> None:
        """Search a trainer's settings with Optuna: every trial is a real training run, judged on validation data.

        Trial 0 has the base settings. At the end the winner and the base are trained again with further seeds. Without
        arguments the motion predictor's settings are searched on starter clips, in at most 15 minutes on two cores.
        """

    add_command(app, TuneBayesSettings, run_search, "tune-bayes", like=tune_bayes)


def run_search(resolved: Resolved[TuneBayesSettings], dry_run: bool, as_json: bool, arguments: dict[str, Any]) -> None:
    """Search; the command has no arguments of its own."""
    run_tune(resolved, dry_run=dry_run, as_json=as_json)
