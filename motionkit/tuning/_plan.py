"""What a search is going to do: everything that its processes must agree on, as study.json holds it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.config import Choice, Range, Search
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs import Run, write_bytes_atomic
from motionkit.tuning._base import Base, require_known
from motionkit.tuning._space import dimension, values_of, with_base, written

# Names in the folder of a study.


PLAN = "study.json"
JOURNAL = "journal.log"
TRIALS, SEEDS, WORKERS = "trials", "seeds", "workers"
"""Folders: runs of trials, runs of the winner and the base with other seeds, locks and output of processes."""

HISTORY, BEST_JSON, BEST_TOML = "history.json", "best.json", "best.toml"


Sampler = Literal["auto", "gp", "tpe", "random", "cmaes", "qmc"]
Pruner = Literal["auto", "none", "hyperband", "median"]
SAMPLERS: tuple[str, ...] = get_args(Sampler)
PRUNERS: tuple[str, ...] = get_args(Pruner)
_MOST_DIMENSIONS, _MOST_TRIALS = 20, 100
"""Up to where `auto` takes the Gaussian process; docs/tuning.md has the measurements."""


class Plan(BaseModel):
    """A search."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    trainer: str  # Name of the trainer
    base: dict[str, Any]  # Its settings
    space: dict[str, Any]  # What is searched, as `motionkit.tuning._space.written` writes it
    value: str  # Where the value stands in the summary of a run, dotted
    watch: str  # Metric that tells it on the way; empty for none
    direction: Literal["maximize", "minimize"]  # Whether higher or lower values are better
    trial: dict[str, Any]  # Settings of trials alone
    patience: int = Field(ge=1)  # Values of `watch` before a trial may be pruned
    trials: int = Field(ge=1)  # How many trials
    seeds: int = Field(ge=0)  # How many further seeds the winner and the base are trained on
    seed: int = Field(ge=0)  # Seed of the sampler
    sampler: Sampler  # The chosen sampler
    pruner: Pruner  # The chosen pruner
    why: str  # Why these two
    study: str  # Name of the study in its storage
    storage: str  # Optuna storage URL; empty for the journal in the study folder
    # Fingerprints of what the trainer reads, by setting; see `motionkit.training.base.Trainer`.
    inputs: dict[str, str] = {}

    @property
    def dimensions(self) -> dict[str, Range | Choice]:
        """What is searched."""
        return {key: dimension(value, key, PLAN) for key, value in self.space.items()}

    @property
    def first(self) -> dict[str, Any]:
        """The base's own values: trial 0."""
        return values_of(self.dimensions, self.base)

    @property
    def digest(self) -> str:
        """A fingerprint of what processes that share a study must agree on."""
        common = self.model_dump(include={"trainer", "base", "space", "value", "watch", "direction", "trial", "inputs"})
        return hashlib.sha256(json.dumps(common, sort_keys=True).encode()).hexdigest()[:16]

    def better(self, one: float, other: float) -> bool:
        """Whether one value is better than another."""
        return one > other if self.direction == "maximize" else one < other


def make_plan(
    base: Base,
    *,
    study: str,
    trials: int,
    space: Mapping[str, Range | Choice] | None = None,
    value: str = "",
    watch: str | None = None,
    direction: Literal["maximize", "minimize"] = "maximize",
    trial: Mapping[str, Any] | None = None,
    seeds: int = 3,
    seed: int = 0,
    sampler: Sampler = "auto",
    pruner: Pruner = "auto",
    storage: str = "",
) -> tuple[Plan, Base, list[str]]:
    """Decide everything that is left open; returns the plan, its base and what the user should know."""
    own: Search | None = base.component.searched(base.with_values({}).settings)
    base = base.fixed(own.base if own is not None else {})
    chosen = space if space is not None else own.space if own is not None else None
    if not chosen:
        raise MotionkitError(
            f"trainer {base.trainer} has no search space of its own.", fix="give one with --space FILE; docs/tuning.md"
        )
    value = value or (own.value if own is not None else "")
    if not value:
        raise MotionkitError(
            f"trainer {base.trainer} does not say what is to be improved.",
            fix="--value heldout.reward.after, where that is a number of its --json document.",
        )
    watch = watch if watch is not None else own.watch if own is not None else ""
    short = {**(own.trial if own is not None else {}), **(trial or {})}
    require_known({**chosen, **short}, base.table, base.trainer)
    wide, notes = with_base(chosen, base.table)
    sampler, pruner, why = choose_method(sampler, pruner, wide, trials, watched=bool(watch))
    base.with_values(short)  # refuses what does not fit, before anything starts
    plan = Plan(
        trainer=base.trainer, base=dict(base.table), space=written(wide), value=value, watch=watch,
        direction=direction, trial=json.loads(json.dumps(short)), patience=own.patience if own is not None else 1,
        trials=trials, seeds=seeds, seed=seed, sampler=sampler, pruner=pruner, why=why, study=study, storage=storage,
    )  # fmt: skip
    return plan, base, notes


def choose_method(
    sampler: Sampler, pruner: Pruner, space: Mapping[str, Range | Choice], trials: int, *, watched: bool
) -> tuple[Sampler, Pruner, str]:
    """Choose the sampler and the pruner that are left to us, and say why."""
    numbers = all(isinstance(one, Range) for one in space.values())
    if pruner in ("hyperband", "median") and not watched:
        raise MotionkitError(f"--pruner {pruner} needs a metric to watch.", fix="--watch METRIC, or --pruner none")
    if sampler == "auto":
        small = numbers and len(space) <= _MOST_DIMENSIONS and trials <= _MOST_TRIALS
        if small and pruner in ("auto", "none") and _there("scipy"):
            why = f"{len(space)} numbers and {trials} trials: a Gaussian process learns most from each finished trial"
            return "gp", "none", why
        sampler = "tpe"
        if pruner not in ("auto", "none"):
            why = "trials are pruned, which the Gaussian process cannot use"
        elif not numbers:
            why = "the space has choices"
        elif not small:
            why = f"{len(space)} settings and {trials} trials are many for a Gaussian process"
        else:
            why = "scipy is not installed, which the Gaussian process needs (pip install 'motionkit[tune]')"
    else:
        why = "asked for"
        needs = {"gp": "scipy", "qmc": "scipy", "cmaes": "cmaes"}.get(sampler)
        if needs and not _there(needs):
            raise MotionkitError(f"--sampler {sampler} needs {needs}.", fix="pip install 'motionkit[tune]'")
        if sampler == "cmaes" and not numbers:
            raise MotionkitError("--sampler cmaes searches numbers, and the space has choices.", fix="--sampler tpe")
    if pruner == "auto":
        pruner = {"tpe": "hyperband", "random": "median"}.get(sampler, "none") if watched else "none"  # type: ignore[assignment]
    return sampler, pruner, why


def save_plan(run: Run, plan: Plan) -> None:
    """Write the plan into the study folder, and list there what a search makes."""
    for name in (JOURNAL, f"{JOURNAL}.lock", TRIALS, SEEDS, WORKERS, HISTORY, BEST_JSON, BEST_TOML):
        run.artifact(name)
    write_bytes_atomic(run.artifact(PLAN), plan.model_dump_json(indent=1).encode())


def read_plan(folder: Path) -> Plan:
    """Read the plan of a study folder."""
    try:
        return Plan.model_validate(read_json(folder / PLAN, dict))
    except ValidationError as error:
        found = error.errors()[0]
        where = ".".join(map(str, found["loc"]))
        raise MotionkitError(f"{folder / PLAN} is damaged: {where}: {found['msg']}.") from error


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
