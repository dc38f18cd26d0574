"""Example 03 from files to a policy, its own commands in a short form, on a few captured clips (`data/cmu`)."""

from __future__ import annotations

import csv
import itertools
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from ..made.texts import HashEncoder
from ..test_examples import ROOT, commands

PAGE = ROOT / "examples" / "03-text-to-motion-grpo" / "README.md"
SHORT = {
    "convert": "--jobs 1",
    "pretrain tmr": "--num-steps 1 --batch-size 4",
    "pretrain t2m-evaluator": "--num-steps 1 --batch-size 4",
    "pretrain mdm": "--num-steps 1 --batch-size 4 --set motions=1",
    "grpo": "--num-steps 1 --batch-size 2 --set heldout.prompts=2 --set heldout.samples=1 --set heldout.motions=1 "
    "--set audit.enabled=false --set heldout.all_steps=off --inference-timesteps 2 --train-timesteps 2",
    "eval text-to-motion": "--limit 2 --mode debug --inference-timesteps 2 --split test",
}
"""Words after a command of the page."""

PER_SPLIT = {"train": 8, "val": 4, "test": 4}


@pytest.fixture
def few(tmp_path: Path, shared: Path) -> tuple[Path, Path]:
    """A folder of short clips of CMU's library, and their rows of its table."""
    data = shared / "data" / "cmu"
    rows = list(csv.DictReader((data / "index.csv").read_text().splitlines()))
    chosen = [
        row
        for split, count in PER_SPLIT.items()
        for row in [row for row in rows if row["split"] == split and 180 < int(row["frames"]) < 400][:count]
    ]
    (tmp_path / "bvh").mkdir()
    for row in chosen:
        shutil.copy(data / row["file"], tmp_path / "bvh")
    with (tmp_path / "few.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(chosen)
    return tmp_path / "bvh", tmp_path / "few.csv"


def test_the_road_of_example_03(
    few: tuple[Path, Path], cli: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("motionkit.text._load.MiniLMEncoder", lambda *words, **options: HashEncoder(384, "minilm"))
    Path("examples").symlink_to(ROOT / "examples")
    bvh, table = few
    for words in itertools.islice(commands(PAGE), len(SHORT) + 1):  # two trainings of a TMR
        name = " ".join(words[: 2 if words[0] in ("pretrain", "eval") else 1])
        typed = [{"$BVH": str(bvh), "$CSV": str(table)}.get(word, word) for word in words]
        result = cli(*typed, *shlex.split(SHORT[name]), *(["--device", "cpu"] if name != "convert" else []))
        assert result.exit_code == 0, f"{words}\n{result.stderr}"
        assert "next: motionkit " in result.stderr or name.startswith("eval")
    policy = json.loads(Path("runs/mocap/grpo/policy/policy.json").read_text())
    assert policy["text"]["encoder"] == "minilm"
    assert policy["trained_on"]["root"] == str(tmp_path / "data/mocap")
