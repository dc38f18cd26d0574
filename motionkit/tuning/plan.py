"""The plan of a search: everything that its processes must agree on, stored as study.json.

`make_plan` decides what is left open. Below is the search space: `read_space` reads the user's file, `written` is its
form in the plan, `with_base` widens it to include the base's values, and `distributions` are Optuna's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.contracts.search import Choice, Range, Space
from motionkit.documents import read_json, read_toml, read_yaml
from motionkit.errors import MotionkitError
from motionkit.runs import Run, write_bytes_atomic
from motionkit.tuning.base import Base, value_at
from motionkit.tuning.settings import Pruner, Sampler, TuneBayesSettings

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

PLAN = "study.json"
JOURNAL = "journal.log"
"""Files in the folder of a study: the plan, and the storage of its trials."""

TRIALS, SEEDS, WORKERS = "trials", "seeds", "workers"
"""Folders: runs of trials, runs of the winner and the base with other seeds, locks and output of processes."""

HISTORY, BEST_JSON, BEST_TOML = "history.json", "best.json", "best.toml"
"""Files of the result: all trials, and the best settings."""

_MOST_DIMENSIONS, _MOST_TRIALS = 20, 100
"""Largest search for which `auto` takes the Gaussian process; docs/tuning.md has the measurements."""

_JSON, _YAML = (".json", ".jsonc"), (".yaml", ".yml")
_EXAMPLE = '"optim.learning_rate" = [1e-5, 1e-3, "log"]'
"""A line of a file of a space, for errors."""


class Plan(BaseModel):
    """A search."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    trainer: str  # Name of the trainer
    base: dict[str, Any]  # Its settings
    space: dict[str, Any]  # What is searched, as `motionkit.tuning.plan.written` writes it
    value: str  # Dotted key of the value in the summary of a run
    watch: str  # Metric that follows the value during training; empty for none
    direction: Literal["maximize", "minimize"]  # Whether higher or lower values are better
    trial: dict[str, Any]  # Settings of trials only
    patience: int = Field(ge=1)  # Values of `watch` before a trial may be pruned
    trials: int = Field(ge=1)  # How many trials
    seeds: int = Field(ge=0)  # How many further seeds the winner and the base are trained on
    seed: int = Field(ge=0)  # Seed of the sampler
    sampler: Sampler  # The chosen sampler
    pruner: Pruner  # The chosen pruner
    why: str  # Why these two were chosen
    study: str  # Name of the study in its storage
    storage: str  # Optuna storage URL; empty for the journal in the study folder
    # Fingerprints of the trainer's inputs, by setting; see `motionkit.training.base.Trainer`.
    inputs: dict[str, str] = {}

    @property
    def dimensions(self) -> dict[str, Range | Choice]:
        """The search space."""
        return {key: dimension(value, key, PLAN) for key, value in self.space.items()}

    @property
    def first(self) -> dict[str, Any]:
        """The base's values in the types of the space: trial 0."""
        values = {key: value_at(self.base, key) for key in self.space}
        return {
            key: values[key] if isinstance(axis, Choice) else int(values[key]) if axis.whole else float(values[key])
            for key, axis in self.dimensions.items()
        }

    @property
    def digest(self) -> str:
        """Fingerprint of everything that processes sharing a study must agree on."""
        common = self.model_dump(include={"trainer", "base", "space", "value", "watch", "direction", "trial", "inputs"})
        return hashlib.sha256(json.dumps(common, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def seeds_study(self) -> str:
        """Name of the second study, with further seeds."""
        return f"{self.study} (seeds)"

    def better(self, new: float, other: float) -> bool:
        """Whether one value is better than another."""
        return new > other if self.direction == "maximize" else new < other


def make_plan(
    base: Base,
    settings: TuneBayesSettings,
    *,
    study: str,
    trial: Mapping[str, Any] | None = None,
    space: Space | None = None,
) -> tuple[Base, Plan, list[str]]:
    """Decide everything that is left open.

    Args:
        base: Trainer and settings.
        settings: What was asked for.
        study: Name of the study.
        trial: Settings of trials only, besides those of the trainer's own search.
        space: The search space; None for the trainer's own.

    Returns:
        The base with what the trainer's search fixes in it, the plan, and notes for the user.
    """
    base, searched = base.searched()
    chosen = searched.space if space is None else space
    if not chosen:
        raise MotionkitError(
            f"trainer {base.trainer} has no search space.", fix="give one with --space FILE; docs/tuning.md"
        )
    value = settings.value or searched.value
    if not value:
        raise MotionkitError(
            f"trainer {base.trainer} does not name a value to improve.",
            fix="--value KEY, a number of its --json document such as heldout.reward.after",
        )
    watch = searched.watch if settings.watch is None else settings.watch
    short = {**searched.trial, **(trial or {})}
    first = base.values([*chosen, *short])
    base.with_values(short)  # refuses what does not fit, before anything starts
    wide, notes = with_base(chosen, first)
    sampler, pruner, why = choose_method(settings.sampler, settings.pruner, wide, settings.trials, watched=bool(watch))
    plan = Plan(
        trainer=base.trainer, base=dict(base.table), space=written(wide), value=value, watch=watch,
        direction=settings.direction, trial=json.loads(json.dumps(short)), patience=searched.patience,
        trials=settings.trials, seeds=settings.seeds, seed=settings.seed, sampler=sampler, pruner=pruner, why=why,
        study=study, storage=settings.storage,
    )  # fmt: skip
    return base, plan, notes


def choose_method(
    sampler: Sampler, pruner: Pruner, space: Space, trials: int, *, watched: bool
) -> tuple[Sampler, Pruner, str]:
    """Choose the sampler and the pruner if they are ``auto``, and return why."""
    numbers = all(isinstance(axis, Range) for axis in space.values())
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
    """Write the plan into the study folder and list the artifacts of a search."""
    for name in (JOURNAL, f"{JOURNAL}.lock", TRIALS, SEEDS, WORKERS, HISTORY, BEST_JSON, BEST_TOML):
        run.artifact(name)
    write_bytes_atomic(run.artifact(PLAN), plan.model_dump_json(indent=1).encode())


def read_plan(folder: Path) -> Plan:
    """Read the plan of a study folder."""
    try:
        return Plan.model_validate(read_json(folder / PLAN, dict))
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise MotionkitError(f"{folder / PLAN} is damaged: {place}: {problem['msg']}.") from error


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def read_space(path: Path) -> dict[str, Range | Choice]:
    """Read a space from a JSON, TOML or YAML file, dotted keys or tables.

    A value is ``[low, high]``, optionally followed by ``"log"``, ``"int"`` or both, or a list of choices. ``[128, 512,
    "int", 64]`` goes in steps of 64. A choice between two numbers is written ``{choices = [64, 128]}``.
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        raise MotionkitError(f"--space {path} does not exist.", fix="check the path.")
    if suffix == ".toml":
        table = read_toml(path)
    elif suffix in (*_JSON, *_YAML):
        table = read_json(path, dict, unique=True) if suffix in _JSON else read_yaml(path, dict)
    else:
        raise MotionkitError(f"--space {path} is neither TOML, JSON nor YAML.", fix="name it .toml, .json or .yaml")
    space = dict(_entries(table, "", path))
    if not space:
        raise MotionkitError(f"--space {path} is empty.", fix=_EXAMPLE)
    return space


def _entries(table: Mapping[str, Any], prefix: str, path: Path) -> Iterator[tuple[str, Range | Choice]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and set(value) != {"choices"}:
            yield from _entries(value, f"{key}.", path)
        else:
            yield key, dimension(value, key, str(path))


def dimension(value: object, key: str, origin: str) -> Range | Choice:
    """Parse one dimension as it is written in a file."""
    try:
        if isinstance(value, dict):
            return _choice(value.get("choices"))
        if not isinstance(value, list):
            raise ValueError("is not a list")
        ends, marks = value[:2], value[2:]
        step = marks.pop() if marks and _is_number(marks[-1]) and "int" in marks else 1
        if len(value) >= 2 and all(map(_is_number, ends)) and all(mark in ("log", "int") for mark in marks):
            return Range(float(ends[0]), float(ends[1]), "log" in marks, "int" in marks, int(step))
        return _choice(value)
    except ValueError as error:
        raise MotionkitError(f"{key} in {origin}: {error}.", why=f"it is {value!r}.", fix=_EXAMPLE) from error


def _choice(values: object) -> Choice:
    if not isinstance(values, list) or not values:
        raise ValueError("a list of choices is missing")
    if any(item is not None and not isinstance(item, (str, int, float, bool)) for item in values):
        raise ValueError("a choice is a word, a number, true, false or null")
    if len(values) < 2:
        raise ValueError("one choice is not a choice")
    return Choice(tuple(values))


def written(space: Space) -> dict[str, Any]:
    """Return a space as it is written in a file; `dimension` reads each value back."""
    table: dict[str, Any] = {}
    for key, axis in space.items():
        if isinstance(axis, Choice):
            table[key] = {"choices": list(axis.values)}
        else:
            ends = [int(axis.low), int(axis.high)] if axis.whole else [axis.low, axis.high]
            marks = [*(["log"] if axis.log else []), *(["int"] if axis.whole else [])]
            table[key] = [*ends, *marks, *([axis.step] if axis.step != 1 else [])]
    return table


def with_base(space: Space, first: Mapping[str, Any]) -> tuple[dict[str, Range | Choice], list[str]]:
    """Return the space widened to include the base's values, and a sentence for each change.

    Args:
        space: The space.
        first: The base's values, by key.
    """
    wide: dict[str, Range | Choice] = {}
    notes = []
    for key, axis in space.items():
        value, new = first[key], axis
        if isinstance(axis, Choice):
            if value not in axis.values:
                new = Choice((*axis.values, value))
        elif not _is_number(value):
            raise MotionkitError(
                f"{key} is {value!r} in the base settings, which is not a number.",
                fix=f"give it one, or leave {key} out of the space.",
            )
        elif axis.log and value <= 0:
            raise MotionkitError(
                f"{key} is {value:g} in the base settings, and its logarithm is searched.",
                fix='leave "log" out, or set it above 0 in the base.',
            )
        else:
            low, high, step = min(axis.low, float(value)), max(axis.high, float(value)), axis.step
            if step != 1:  # the grid must contain both ends of the range and the base's value
                step = math.gcd(step, int(abs(value - axis.low)))
            new = replace(axis, low=low, high=high, step=max(step, 1))
        if new != axis:
            notes.append(f"{key}: the base has {_shown(value)}, so the space was widened to hold it")
        wide[key] = new
    return wide, notes


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    by_key: dict[str, BaseDistribution] = {}
    for key, axis in space.items():
        if isinstance(axis, Choice):
            by_key[key] = CategoricalDistribution(axis.values)
        elif axis.whole:
            by_key[key] = IntDistribution(int(axis.low), int(axis.high), log=axis.log, step=axis.step)
        else:
            by_key[key] = FloatDistribution(axis.low, axis.high, log=axis.log)
    return by_key


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)
