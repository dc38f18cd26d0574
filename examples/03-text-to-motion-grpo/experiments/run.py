"""Run the five experiments of the GRPO guide and compare what came of them.

    python examples/03-text-to-motion-grpo/experiments/run.py runs/experiments --jobs 2     # on the starter pack
    python examples/03-text-to-motion-grpo/experiments/run.py runs/experiments \\
        --policy save/official_humanml_enc_512_50steps/model000750000.pt --data dataset/HumanML3D \\
        --tmr model/GRPO/tmr_weights --judge mdm-dense --judge-weights checkpoints/t2m --devices 0,1,2,3,4

A run that has ended is skipped and one that was stopped goes on, so the script may be started again at any time. Words
after `--` go to every `motionkit grpo`. The policies are then measured with one yardstick, a dense score that none of
them was trained on: the same prompts of the validation split, the same noise.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit import load_dataset, load_policy, load_reward
from motionkit.contracts.reward import Reward, RewardScores
from motionkit.errors import MotionkitError
from motionkit.metrics.paired import Paired, compare
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.heldout import HeldOut
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.rewards.mix import RewardMix

HERE = Path(__file__).resolve().parent
EXPERIMENTS = ("1-dense", "2-global", "3-dense-physics", "4-global-physics", "5-dense-penalty-physics")
COLUMNS = {
    "judge": "judge", "accuracy": "own text closest", "movement": "movement", "skate": "skate", "jerk": "jerk",
    "speed": "speed",
}  # fmt: skip
QUESTIONS = (
    ("Dense instead of global", "2-global", "1-dense"),
    ("The same, with physics", "4-global-physics", "3-dense-physics"),
    ("Physics added to dense", "1-dense", "3-dense-physics"),
    ("Physics added to global", "2-global", "4-global-physics"),
    ("The penalty (alpha 0.5)", "3-dense-physics", "5-dense-penalty-physics"),
)
Values = Mapping[str, NDArray[np.float64]]
"""``[P, S]`` values of P prompts, S samples each, by quantity."""


class Accuracy:
    """The share of a motion's segments whose own text is the closest of its prompt, as a score."""

    name = "accuracy"

    def __init__(self, judge: Reward) -> None:
        self.judge = judge

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions."""
        scores: RewardScores = self.judge.score(motions, prompts)
        return replace(scores, total=scores.parts["correct"], segments=None)


def main() -> None:
    """Run, measure, print."""
    asked, more = parse()
    jobs = [(name, seed) for seed in asked.seeds for name in asked.only]
    places: queue.Queue[str] = queue.Queue()
    for place in asked.devices.split(",") if asked.devices else [""] * asked.jobs:
        places.put(place)
    with ThreadPoolExecutor(places.qsize()) as pool:
        codes = list(pool.map(lambda job: train(job[0], job[1], asked, more, places), jobs))
    failed = [job for job, code in zip(jobs, codes, strict=True) if code]
    if failed:
        sys.exit(f"{len(failed)} of {len(jobs)} runs failed: {', '.join(f'{name}-{seed}' for name, seed in failed)}")
    table = compared(asked)
    (asked.out / "table.md").write_text(table + "\n")
    print(table)


def parse() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the runs")
    parser.add_argument("--set", choices=("recommended", "guide"), default="recommended", help="which five files")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, help="updates, where the files' are not wanted (the guide: 1000, 10000)")
    parser.add_argument("--k-segments", type=int, default=3, help="actions of a prompt: 3, 4 or 5")
    parser.add_argument("--policy", default="starter", help="checkpoint")
    parser.add_argument("--dataset", choices=("humanml", "kit", "composite"), default="humanml", help="what --data is")
    parser.add_argument("--data", help="folder of the dataset; default: the starter's")
    parser.add_argument("--tmr", help="folder of the TMR that is trained on; default: the starter's")
    parser.add_argument("--judge", choices=("tmr-dense", "mdm-dense"), default="tmr-dense", help="the yardstick")
    parser.add_argument("--judge-weights", default="starter:judge")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--devices", default="", help="one run at a time on each, such as 0,1,2")
    return parser.parse_args(words[:cut]), words[cut + 1 :]


def train(name: str, seed: int, asked: argparse.Namespace, more: Sequence[str], places: queue.Queue[str]) -> int:
    """Train one experiment, unless it is done, at the next free place; return the exit code."""
    folder, file = asked.out / f"{name}-{seed}", HERE / asked.set / f"{name}.toml"
    record = folder / "run.json"
    if record.exists() and json.loads(record.read_text())["status"] == "done":
        print(f"{folder}: done", flush=True)
        return 0
    command = [sys.executable, "-m", "motionkit", "grpo"]
    if record.exists():
        command += ["--resume", str(folder)]
    else:
        command += [
            "--config",
            str(file),
            "--seed",
            str(seed),
            "--out",
            str(folder),
            "--policy.checkpoint",
            asked.policy,
        ]
        command += ["--dataset", asked.dataset] if asked.data else []
        command += (
            ["--dataset.path" if asked.dataset == "composite" else "--dataset.root", asked.data] if asked.data else []
        )
        command += ["--reward.weights", asked.tmr] if asked.tmr else []
        command += ["--num-steps", str(asked.steps)] if asked.steps else []
        # The guide's whole-motion experiments train on single captions.
        command += ["--k-segments", str(asked.k_segments)] if "k_segments" in file.read_text() else []
        command += more
    place = places.get()
    try:
        print(f"{folder}: started" + (f" on device {place}" if place else ""), flush=True)
        words = ["--device", place] if place else ["--threads", "1"]
        code = subprocess.run([*command, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    finally:
        places.put(place)
    print(f"{folder}: " + ("done" if code.returncode == 0 else f"exit code {code.returncode}\n{code.stderr[-2000:]}"))
    return code.returncode


def compared(asked: argparse.Namespace) -> str:
    """Return two Markdown tables: the change of each experiment, and the differences that the guide asks for."""
    found = {name: [measured(asked, name, seed) for seed in asked.seeds] for name in asked.only}
    base = [measured(asked, "", seed) for seed in asked.seeds]
    head = ["", *COLUMNS.values()]
    rows = [["policy before", *(f"{np.nanmean(joined(base, name)):.3f}" for name in COLUMNS)]]
    rows += [[name, *(cell(base, values, column) for column in COLUMNS)] for name, values in found.items()]
    answers = [
        [question, *(cell(found[first], found[second], column) for column in COLUMNS)]
        for question, first, second in QUESTIONS
        if first in found and second in found
    ]
    note = (
        f"{asked.k_segments} actions a prompt, seeds {', '.join(map(str, asked.seeds))}; change with its 95 % interval "
        "over prompts, which does not hold the variance of training."
    )
    return "\n".join([note, "", *markdown(head, rows), "", *markdown(["question", *head[1:]], answers)])


def measured(asked: argparse.Namespace, name: str, seed: int) -> Values:
    """Measure a run's policy, or without a name the policy that all started from; kept beside the run."""
    run = asked.out / f"{name or asked.only[0]}-{seed}"
    file = run / ("measured.json" if name else "measured_before.json")
    if not file.exists() or file.stat().st_mtime < (run / "run.json").stat().st_mtime:
        print(f"measuring {run if name else 'the policy before training'}", flush=True)
        config = json.loads((run / "config.json").read_text())
        values = measure(asked, config, str(run) if name else asked.policy)
        file.write_text(json.dumps({key: value.tolist() for key, value in values.items()}))
    return {key: np.asarray(value) for key, value in json.loads(file.read_text()).items()}


def measure(asked: argparse.Namespace, config: Mapping[str, Any], checkpoint: str) -> Values:
    """Sample a policy as its run does, and score it."""
    dataset = load_dataset(**config["dataset"])
    policy = load_policy(checkpoint, dataset=dataset)
    judge = load_reward(asked.judge, dataset=dataset, weights=asked.judge_weights)
    sampler, heldout = config["sampler"], config["heldout"]
    prompts = dataset.prompts("val", k_segments=asked.k_segments)[: heldout["prompts"]]
    question = HeldOut(
        prompts,
        samples=heldout["samples"],
        steps=policy.schedule.visited(sampler["spacing"], sampler["inference_timesteps"]),
        guidance=sampler["guidance_scale"],
        rewards=RewardMix([(judge, 1.0)]),
        judge=Accuracy(judge),
        real=RealMotions(dataset, "val", prompts),
    )
    values = question.measure(policy).quantities
    return {
        "judge": values["reward"],
        "accuracy": values["judge"],
        **{name: values[name] for name in list(COLUMNS)[2:]},
    }


def joined(seeds: Sequence[Values], column: str) -> NDArray[np.float64]:
    """Return ``[P, S * seeds]``: the seeds of a prompt are its samples."""
    return np.concatenate([values[column] for values in seeds], axis=1)


def cell(before: Sequence[Values], after: Sequence[Values], column: str) -> str:
    """Return a change as text."""
    pair: Paired = compare(joined(before, column), joined(after, column))
    low, high = pair.ci95
    if low <= 0.0 <= high:
        return f"no difference ({pair.delta:+.3g})"
    return f"{pair.delta:+.3g} [{low:+.3g}, {high:+.3g}]"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(row)} |" for row in (head, ["--"] * len(head), *rows)]


if __name__ == "__main__":
    try:
        main()
    except MotionkitError as error:
        sys.exit(str(error))
