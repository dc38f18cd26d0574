"""A search against random search with the same number of trials; ``python tests/benchmarks/search.py --help``.

On a cheap surrogate of the predictor's training (``surrogate``), or with real trials on starter clips (``real``).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from motionkit.contracts.search import Range
from motionkit.tuning.plan import Plan, distributions, written
from motionkit.tuning.samplers import make_sampler

SPACE = {
    "lr": Range(1e-5, 1e-2, log=True),
    "weight_decay": Range(1e-4, 0.2, log=True),
    "width": Range(128, 512, whole=True, step=64),
    "dropout": Range(0.0, 0.5),
    "fk_pos": Range(0.0, 2.0),
    "rot_local": Range(0.0, 1.0),
    "rot_log": Range(0.0, 1.0),
    "tf_end": Range(3, 10, whole=True),
    "weight": Range(0.3, 3.0, log=True),
    "horizon": Range(5, 30, whole=True),
    "first_horizon": Range(1, 5, whole=True),
}
"""Eleven settings, as train-mpl's."""

BASE = {"lr": 3e-4, "weight_decay": 0.01, "width": 256, "dropout": 0.3, "fk_pos": 0.0, "rot_local": 0.0,
        "rot_log": 0.0, "tf_end": 7, "weight": 1.0, "horizon": 10, "first_horizon": 3}  # fmt: skip
BEST = {"lr": 2e-3, "weight_decay": 0.005, "width": 512, "dropout": 0.08, "fk_pos": 0.6, "rot_local": 0.5,
        "rot_log": 0.3, "tf_end": 6, "weight": 1.2, "horizon": 15, "first_horizon": 2}  # fmt: skip
WEIGHT = {"lr": 1.2, "weight_decay": 0.05, "width": 0.3, "dropout": 0.5, "fk_pos": 0.1, "rot_local": 0.15,
          "rot_log": 0.05, "tf_end": 0.2, "weight": 0.4, "horizon": 0.6, "first_horizon": 0.05}  # fmt: skip
NOISE = 0.01
"""Standard deviation between seeds of the same settings."""


def skill(values: Mapping[str, Any]) -> float:
    """A skill of 0.5 at the best place, falling with the distance there; horizon and rate depend on each other."""
    away = {name: place(name, values[name]) - place(name, BEST[name]) for name in SPACE}
    lost = sum(WEIGHT[name] * away[name] ** 2 for name in SPACE)
    lost += 0.8 * away["lr"] * away["horizon"] + 0.3 * away["dropout"] * away["width"]
    return 0.5 - lost / (1 + abs(lost)) - (0.4 if values["lr"] > 8e-3 else 0.0)


def place(name: str, value: float) -> float:
    """Where a value lies in its range, from 0 to 1."""
    one = SPACE[name]
    low, high, at = (math.log(x) if one.log else x for x in (one.low, one.high, value))
    return (at - low) / (high - low)


def surrogate(sampler: str, trials: int, repeat: int) -> list[float]:
    """Return the true skill of the best trial so far, after each trial; what is seen is noisy, what counts is not."""
    import optuna
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    plan = Plan(
        trainer="surrogate", base=BASE, space=written(SPACE), value="skill", watch="", direction="maximize", trial={},
        patience=1, trials=trials, seeds=0, seed=repeat, sampler=sampler, pruner="none", why="", study="s", storage="",
    )  # fmt: skip
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial(BASE)
    noise = random.Random(repeat)
    best, found = (-math.inf, -math.inf), []
    for number in range(trials):
        study.sampler = make_sampler(plan, number, study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        trial = study.ask(distributions(SPACE))
        true = skill(trial.params)
        seen = true + noise.gauss(0, NOISE)
        study.tell(trial, seen)
        best = max(best, (seen, true))
        found.append(best[1])
    return found


def real(sampler: str, trials: int, repeat: int, folder: Path) -> list[float]:
    """Search on starter clips; return the best value so far after each trial."""
    out = folder / f"{sampler}-{repeat}"
    words = ["motionkit", "tune-bayes", "--trials", trials, "--seeds", 0, "--seed", repeat, "--sampler", sampler]
    words += ["--pruner", "none", "--out", out, "--json"]
    done = subprocess.run([sys.executable, "-m", *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    best, found = -math.inf, []
    for one in json.loads(done.stdout)["trials"]:
        best = max(best, one["value"] if one["value"] is not None else -math.inf)
        found.append(best)
    return found


def compare(run: Callable[[str, int, int], list[float]], samplers: list[str], trials: int, repeats: int) -> None:
    """Print mean and deviation after 10, 20, 50, ... trials, and in how many repeats random search was beaten."""
    marks = [mark for mark in (10, 20, 50, 100) if mark <= trials]
    results = {}
    for sampler in samplers:
        begun = time.monotonic()
        results[sampler] = [run(sampler, trials, repeat) for repeat in range(repeats)]
        each = (time.monotonic() - begun) / (repeats * trials)
        for mark in marks:
            values = [one[mark - 1] for one in results[sampler]]
            won = sum(a > b[mark - 1] for a, b in zip(values, results[samplers[0]], strict=True))
            spread = stdev(values) if len(values) > 1 else 0.0
            print(
                f"{sampler:<7} {mark:>3} trials: {mean(values):.4f} ± {spread:.4f}  "
                f"ahead of {samplers[0]} in {won} of {repeats}  {each:.2f} s a trial",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("surrogate", "real"))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=0, help="default: 20 on the surrogate, 3 for real")
    parser.add_argument("--samplers", default="random,gp", help="the first is what the others are compared with")
    parser.add_argument("--folder", type=Path, default=Path("runs/tune-benchmark"), help="where real trials go")
    given = parser.parse_args()
    chosen = surrogate
    if given.what == "real":
        given.folder.mkdir(parents=True, exist_ok=True)

        def chosen(sampler: str, trials: int, repeat: int) -> list[float]:
            return real(sampler, trials, repeat, given.folder)

    compare(chosen, given.samplers.split(","), given.trials, given.repeats or (20 if given.what == "surrogate" else 3))
