"""Train the configurations of the ablation on one folder of clips, and print one table of their errors on a split.

    python study.py RUNS --data data --seeds 0,1,2

RUNS keeps every run and its figures, so that the same command goes on after a stop. `--only` names configurations.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

ROWS: dict[str, list[str]] = {
    "delta, teacher only": [
        "--model.head", "delta", "--tf-mode", "constant", "--freerun-weight", "0", "--set", "teacher.frames=15",
    ],
    "delta, staged": ["--model.head", "delta"],
    "one-shot": ["--model.head", "one-shot"],
    "both": [],
    "both, with the encoder": ["--encoder", "{encoder}", "--set", "loss.latent_consistency=0.1"],
    "delta, gradnorm": ["--model.head", "delta", "--adaptive-loss", "gradnorm"],
    "delta, uncertainty": ["--model.head", "delta", "--adaptive-loss", "uncertainty"],
    "delta, dwa": ["--model.head", "delta", "--adaptive-loss", "dwa"],
}  # fmt: skip
"""Options of `motionkit train-mpl` by row; all without a command."""


def run(words: list[str]) -> dict[str, Any]:
    """Run a command with ``--json`` and return its document."""
    done = subprocess.run([sys.executable, "-m", "motionkit", *words, "--json"], check=True, stdout=subprocess.PIPE)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def measured(row: str, seed: int, runs: Path, data: str, split: str) -> dict[str, Any]:
    """Train and measure one row with one seed, or read what an earlier call found."""
    name = f"{row.replace(', ', '-').replace(' ', '_')}-{seed}"
    kept = runs / f"{name}.json"
    if not kept.exists():
        common = ["--data", data, "--command", "none", "--seed", str(seed), "--threads", "1"]
        options = [word.replace("{encoder}", str(runs / "encoder")) for word in ROWS[row]]
        if "--encoder" not in options:
            options += ["--encoder", "none"]
        elif not (runs / "encoder" / "run.json").exists():
            run(["pretrain", "mpl-encoder", "--data", data, "--out", str(runs / "encoder"), "--threads", "1"])
        trained = run(["train-mpl", *common, *options, "--out", str(runs / name), "--overwrite"])
        found = run(["eval", "mpl", str(runs / name), "--data", data, "--split", split])
        figures = {
            "cpu_seconds": trained["cpu_seconds"],
            "val": trained["rows"]["model"]["geo_deg"],
            "test": found["rows"]["model"]["geo_deg"],
            "free_teacher_ratio": found["free_teacher_ratio"],
            "baselines": {name: one["geo_deg"] for name, one in found["rows"].items() if name != "model"},
        }
        kept.write_text(json.dumps(figures, indent=2) + "\n")
    figures = json.loads(kept.read_text())
    return dict(figures)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", required=True, help="folder that motionkit convert --to mpl made")
    parser.add_argument("--split", default="test")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--only", default="", help="rows, separated by ;")
    asked = parser.parse_args()
    asked.runs.mkdir(parents=True, exist_ok=True)
    rows = [row.strip() for row in asked.only.split(";") if row.strip()] or list(ROWS)
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    table: list[list[str]] = []
    baselines: dict[str, dict[str, float]] = {}
    for row in rows:
        found = [measured(row, seed, asked.runs, asked.data, asked.split) for seed in seeds]
        keys = list(found[0]["test"])
        cells = [f"{mean(one['test'][key] for one in found):.2f}" for key in keys]
        ratio = mean(one["free_teacher_ratio"] for one in found)
        table.append([row, *cells, f"{ratio:.2f}", f"{mean(one['cpu_seconds'] for one in found):.0f}"])
        baselines = found[0]["baselines"]
        print(" | ".join(table[-1]), file=sys.stderr)
    for name, errors in baselines.items():
        table.append([name, *(f"{value:.2f}" for value in errors.values()), "", ""])
    head = ["", *(f"{key} ms" for key in next(iter(baselines.values()))), "free / teacher", "CPU-seconds"]
    print("\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *table]))


if __name__ == "__main__":
    main()
