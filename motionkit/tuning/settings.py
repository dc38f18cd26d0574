"""What a search is asked for: the settings of ``motionkit tune-bayes``."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from motionkit import plugins
from motionkit.config import Cli, Settings
from motionkit.plugins import packages
from motionkit.training.settings import PlaceSettings

Sampler = Literal["auto", "gp", "tpe", "random", "cmaes", "qmc"]
Pruner = Literal["auto", "none", "hyperband", "median"]


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

    def values(self) -> dict[str, Any]:
        """Return the trainer's settings that have a flag of their own here, where they are given."""
        given = {"data": list(self.data), "device": self.device, "seed": self.seed}
        return {key: value for key, value in given.items() if value not in ([], None, 0)}

    def typed_again(self, code: Collection[str]) -> list[str]:
        """Return the flags that must be typed again to continue, since they run code.

        Args:
            code: Files and options that may run code, see `motionkit.tuning.base.Base.code`.
        """
        options = {entry.partition("=")[0] for entry in code}
        words = ["--trainer", self.trainer] if plugins.is_file(self.trainer) else []
        for flag, sets in (("--base-set", self.base_set), ("--trial-set", self.trial_set)):
            parts = [part for entry in sets for part in re.split("[=,]", entry)]
            if any(plugins.is_file(part) or part.strip() in options for part in parts):
                words += [word for entry in sets for word in (flag, entry)]
        return words
