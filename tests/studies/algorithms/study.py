"""Compare the algorithms of `motionkit grpo` on the starter pack: same held-out prompts, same noise, three seeds.

    python tests/studies/algorithms/study.py RUNS                      # run what is missing, continue what was stopped
    python tests/studies/algorithms/study.py RUNS --only awm --seeds 0 # some of it
    python tests/studies/algorithms/study.py RUNS --write              # table and plot of what results.json holds

Every training run is one command with the algorithm's own defaults and one thread, kept in RUNS/NAME-SEED. Its figures
go into results.json beside this file as soon as it has ended, so the study may be stopped at any time, and RUNS may be
deleted afterwards. Prompts are those of the validation split; the test split is not read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results.json"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "algorithms" / "README.md"
QUANTITIES = ("reward", "judge", "jerk", "skate", "diversity")


@dataclass(frozen=True)
class Row:
    """One method of the comparison.

    Attributes:
        name: Its name in the table and of its runs.
        words: Words after ``motionkit grpo`` (training), or empty for what `measure` does.
        control: Whether it must not learn.
        measure: What is done instead of training, given the seed.
        seeds: Seeds it is run with; None for those asked for.
    """

    name: str
    words: tuple[str, ...] = ()
    control: bool = False
    measure: Callable[[Path, int], dict[str, Any]] | None = None
    seeds: tuple[int, ...] | None = None


SHORT = {"easytune": 75, "awm": 50, "nft": 50, "dpo": 50, "grpo": 40, "flow-grpo": 40}
"""Updates of a control: a quarter of the algorithm's; that of the default, `reward-gradient`, is as long as the run."""


def algorithm(name: str) -> tuple[Row, Row]:
    """Return an algorithm and its control."""
    words = ("--algorithm", name)
    short = ("--num-steps", str(SHORT[name])) if name in SHORT else ()
    control = (*words, *short, "--set", "control.shuffle=true")
    return Row(name, words), Row(f"{name}, control", control, True, seeds=(0,))


def rows() -> list[Row]:
    """Return everything that is compared."""
    gradient = [row for name in ("reward-gradient", "easytune") for row in algorithm(name)]
    black_box = [row for name in ("awm", "nft", "dpo", "grpo", "flow-grpo") for row in algorithm(name)]
    few = ("--algorithm", "grpo", "--batch-size", "8", "--group-size", "8")
    rough = ("--set", "rollout.low_pass=0", "--set", "optim.schedule=constant")
    guided = [Row(f"no training, guidance {scale:g}", measure=guidance(scale), seeds=(0,)) for scale in (1.5, 2.5, 4)]
    return [
        *gradient,
        *black_box,
        Row("grpo, 8 x 8", (*few, *rough), seeds=(0,)),
        Row("supervised", measure=supervised),
        *guided,
        Row("no training, best of 4", measure=best_of(4), seeds=(0,)),
    ]


def main() -> None:
    """Run, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of the runs")
    parser.add_argument("--only", action="append", default=[], help="names of rows; repeatable")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--write", action="store_true", help="write README's table and the plot, and run nothing")
    asked = parser.parse_args()
    if asked.write:
        return write(read())
    for seed in asked.seeds:
        for row in rows():
            wanted = not asked.only or row.name in asked.only
            if not wanted or (row.seeds is not None and seed not in row.seeds) or f"{row.name}-{seed}" in read():
                continue
            print(f"== {row.name}, seed {seed}", flush=True)
            folder = asked.runs / f"{row.name.replace(', ', '-').replace(' ', '-')}-{seed}"
            found = row.measure(folder, seed) if row.measure else train(folder, row.words, seed)
            keep(f"{row.name}-{seed}", {"name": row.name, "control": row.control, "seed": seed, **found})
    return None


def read() -> dict[str, Any]:
    """Return all results so far."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(key: str, result: Mapping[str, Any]) -> None:
    """Add one result to the file."""
    text = json.dumps(dict(sorted({**read(), key: result}.items())), indent=1)
    aside = RESULTS.with_suffix(".tmp")
    aside.write_text(text + "\n")
    aside.replace(RESULTS)


def train(folder: Path, words: tuple[str, ...], seed: int) -> dict[str, Any]:
    """Train, or continue training, and return the held-out figures and the curve."""
    command = [sys.executable, "-m", "motionkit", "grpo"]
    if (folder / "run.json").exists():
        command += ["--resume", str(folder)]
    else:
        command += ["--reward", "tmr-dense", *words, "--seed", str(seed), "--threads", "1", "--out", str(folder)]
        command += ["--set", "heldout.points=10"]
    subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((folder / "run.json").read_text())["summary"]
    curve, cost = [], 0.0
    for line in metrics(folder):
        cost += line.get("time/cpu", 0.0)
        if "heldout/reward/delta" in line:
            curve.append([cost, line["heldout/reward/delta"], line["heldout/judge/delta"]])
    shown = {"steps": summary["steps"], "cpu_seconds": cost, "curve": curve, "command": ["grpo", *words]}
    whole = summary.get("heldout_all_steps", {})
    if whole:
        shown["all_steps"] = {name: whole[name] for name in ("reward", "judge", "jerk")}
    return {**shown, **{name: summary["heldout"][name] for name in QUANTITIES}}


def metrics(folder: Path) -> Iterator[dict[str, float]]:
    """Return the lines of a run's metrics."""
    with (folder / "metrics.jsonl").open() as lines:
        yield from map(json.loads, lines)


def question(guidance_scale: float = 1.0, samples: int = 4) -> Any:
    """Return the held-out question of `motionkit grpo`'s defaults."""
    import torch

    from motionkit import load_dataset, load_reward
    from motionkit.rl import Schedule
    from motionkit.text_to_motion.evaluation.heldout import HeldOut
    from motionkit.text_to_motion.evaluation.judge import open_judge
    from motionkit.text_to_motion.rewards.mix import RewardMix

    dataset = load_dataset("starter")
    return HeldOut(
        dataset.prompts("val", k_segments=0, seed=0)[:64],
        samples=samples,
        steps=Schedule.cosine(50).early(5),
        guidance=guidance_scale,
        rewards=RewardMix([(load_reward("tmr-dense"), 1.0)]),
        judge=open_judge(None, dataset, device=torch.device("cpu"))[0],
    )


def figures(before: Any, after: Any) -> dict[str, Any]:
    """Return paired comparisons of two measurements, as a run's summary has them."""
    from motionkit.text_to_motion.evaluation.heldout import compare_measured

    return {name: one.document() for name, one in compare_measured(before, after).items() if name in QUANTITIES}


def guidance(scale: float) -> Callable[[Path, int], dict[str, Any]]:
    """Return a measurement of the untouched policy at a guidance scale."""

    def measure(folder: Path, seed: int) -> dict[str, Any]:
        from motionkit import load_policy

        policy = load_policy("starter")
        return {"steps": 0, "cpu_seconds": 0.0, **figures(question().measure(policy), question(scale).measure(policy))}

    return measure


def best_of(count: int) -> Callable[[Path, int], dict[str, Any]]:
    """Return a measurement of the best of some samples under the reward: the judge is asked about the same ones."""

    def measure(folder: Path, seed: int) -> dict[str, Any]:
        from motionkit import load_policy
        from motionkit.text_to_motion.evaluation.heldout import Measured

        many = question(samples=4 * count).measure(load_policy("starter")).quantities
        # [P, 4, count]: of each four groups of samples the one with the highest reward.
        grouped = {name: values.reshape(len(values), 4, count) for name, values in many.items()}
        best = grouped["reward"].argmax(2)[..., None]
        after = {name: np.take_along_axis(values, best, 2)[..., 0] for name, values in grouped.items()}
        before = {name: values.mean(2) for name, values in grouped.items()}
        del before["diversity"], after["diversity"]
        return {"steps": 0, "cpu_seconds": 0.0, **figures(Measured(before), Measured(after))}

    return measure


def supervised(folder: Path, seed: int) -> dict[str, Any]:
    """Train the starter's policy on its clips as it was trained, for the cost of the default algorithm."""
    from motionkit import load_policy

    steps = 750
    command = [sys.executable, "-m", "motionkit", "pretrain", "mdm"]
    if (folder / "run.json").exists():
        command += ["--resume", str(folder)]
    else:
        command += ["--init", "starter", "--num-steps", str(steps), "--seed", str(seed), "--threads", "1"]
        command += ["--learning-rate", "3e-4", "--out", str(folder)]
    subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((folder / "run.json").read_text())["summary"]
    before, after = (question().measure(load_policy(path)) for path in ("starter", folder))
    return {"steps": steps, "cpu_seconds": summary["cpu_seconds"], **figures(before, after)}


def write(results: Mapping[str, Any]) -> None:
    """Write the table into docs/algorithms/README.md, between its marks, and both plots beside it."""
    head, _, rest = PAGE.read_text().partition("<!-- table -->\n")
    _, _, tail = rest.partition("<!-- end of table -->\n")
    PAGE.write_text(f"{head}<!-- table -->\n{table(results)}<!-- end of table -->\n{tail}")
    for column, name in ((1, "reward"), (2, "judge")):
        (PAGE.parent / f"{name}.svg").write_text(plot(results, column, name))


def of_row(results: Mapping[str, Any], row: Row) -> list[dict[str, Any]]:
    """Return the results of a row, by seed."""
    return [result for result in results.values() if result["name"] == row.name]


def table(results: Mapping[str, Any]) -> str:
    """Return the table: changes as the mean over the seeds, and the lowest and highest seed."""
    lines = ["| | seeds | updates | CPU-seconds | reward | judge | jerk | skate | diversity |", "|--" * 9 + "|"]
    for row in rows():
        found = of_row(results, row)
        if not found:
            continue
        cells = [row.name, ", ".join(str(one["seed"]) for one in found), str(found[0]["steps"])]
        cells.append(f"{np.mean([one['cpu_seconds'] for one in found]):.0f}")
        cells += [spread([one[name]["delta"] for one in found], "{:+.3f}") for name in ("reward", "judge")]
        for name in ("jerk", "skate", "diversity"):
            changes = [100 * one[name]["delta"] / one[name]["before"] for one in found if name in one]
            cells.append(spread(changes, "{:+.0f}") + " %" if changes else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def spread(values: list[float], form: str) -> str:
    """Return the mean, and both ends where there are several."""
    mean = form.format(np.mean(values))
    return mean if len(values) == 1 else f"{mean} ({form.format(min(values))} .. {form.format(max(values))})"


def plot(results: Mapping[str, Any], column: int, name: str) -> str:
    """Return a drawing: a score of other validation prompts against the cost of training, means over seeds."""
    from motionkit.page import Curve, curves, drawing

    shown = []
    for row in rows():
        found = [one["curve"] for one in of_row(results, row) if one.get("curve")]
        if found and not row.control:
            mean = np.mean([curve for curve in found if len(curve) == len(found[0])], axis=0)
            shown.append(Curve(row.name, [(point[0], point[column]) for point in mean]))
    words = {"x_label": "CPU-seconds of training", "y_label": f"held-out {name}, change"}
    return drawing(curves(shown, **words, width=640, height=330), width=760)


if __name__ == "__main__":
    main()
