"""Two processes on the CPU train as one does; they stop together, fail together, and go on alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ..made.processes import alone, distance, ends, start, together, weights

pytestmark = pytest.mark.slow  # every test starts processes; .ci/run runs them all the same

GRPO = (
    "grpo", "--algorithm", "grpo", "--device", "cpu", "--threads", "1", "--batch-size", "2", "--group-size", "2",
    "--dataset.clips", "144", "--dataset.val-clips", "48", "--dataset.test-clips", "48", "--dataset.prompts", "8",
    "--train-timesteps", "5", "--set", "sampler.window_size=2", "--set", "heldout.prompts=0",
    "--learning-rate", "3e-5",
)  # fmt: skip
SA2VA = (
    "sa2va-rl", "--device", "cpu", "--batch-size", "2", "--group-size", "4", "--set", "heldout.regions=4",
    "--set", "heldout.every=0",
)  # fmt: skip
REGIONS = (
    "pretrain", "regions", "--device", "cpu", "--batch-size", "4", "--set", "train.val_regions=4",
    "--learning-rate", "2e-4",
)  # fmt: skip
PAIRS = (
    "--device", "cpu", "--threads", "1", "--batch-size", "8", "--dataset.clips", "144", "--dataset.val-clips", "48",
    "--dataset.test-clips", "48", "--set", "train.val_clips=8", "--set", "model.dropout=0", "--learning-rate", "1e-5",
    "--set", "optim.warmup_steps=1",
)  # fmt: skip
TMR = ("pretrain", "tmr", *PAIRS)
EVALUATOR = ("pretrain", "t2m-evaluator", *PAIRS)
ENCODER = (
    "pretrain", "mpl-encoder", "--device", "cpu", "--threads", "1", "--batch-size", "64", "--set", "model.dropout=0",
    "--learning-rate", "1e-4", "--fps", "10",
)  # fmt: skip
EVERY = ("--set", "checkpoint.every=1", "--set", "checkpoint.keep=9")
CLOSE = 1e-6


def processes_of(run: Path) -> int:
    record: dict[str, Any] = json.loads((run / "run.json").read_text())
    return int(record["processes"])


@pytest.mark.parametrize(
    "command", [GRPO, SA2VA, REGIONS, TMR, EVALUATOR, ENCODER],
    ids=["grpo", "sa2va-rl", "regions", "tmr", "t2m-evaluator", "mpl-encoder"],
)  # fmt: skip
def test_two_processes_give_the_parameters_of_one(command: tuple[str, ...], tmp_path: Path) -> None:
    words = [*command, "--num-steps", "5"]
    alone([*words, *EVERY, "--out", str(tmp_path / "one")])
    (_, out, err), other = together([*words, "--out", str(tmp_path / "two"), "--json"], tmp_path / "two")
    assert (processes_of(tmp_path / "one"), processes_of(tmp_path / "two")) == (1, 2)
    assert json.loads(out)["steps"] == 5
    assert "2 processes share each step" in err
    assert other == (0, "", "")
    found = weights(tmp_path / "one", 5)
    assert distance(found, weights(tmp_path / "two", 5)) < CLOSE
    # They have moved far beyond that.
    assert distance(found, weights(tmp_path / "one", 1)) > 10 * CLOSE
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("one", "two")]
    for mine, theirs in zip(*(map(json.loads, each) for each in lines), strict=True):
        assert mine.keys() == theirs.keys()
        for name in ("loss/total", "grad/norm", "reward/mean", "loop1/reward_mean", "loop2/loss"):
            if name in mine:  # terms of about 1 cancel in the loss, which leaves float32's rounding of them
                assert theirs[name] == pytest.approx(mine[name], rel=1e-4, abs=1e-5), name


def test_a_signal_to_one_stops_both_and_one_goes_on_alone(tmp_path: Path) -> None:
    words = [*SA2VA, *EVERY, "--set", "checkpoint.keep=9999", "--num-steps", "16"]
    alone([*words, "--out", str(tmp_path / "one")])
    processes = start([*words, "--out", str(tmp_path / "two")], tmp_path / "two")
    metrics = tmp_path / "two" / "metrics.jsonl"
    until = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(processes[1].process.pid or 0, signal.SIGTERM)
    (code, _, err), other = ends(processes)
    assert (code, other) == (143, (143, "", ""))
    assert "interrupted at step" in err
    record = json.loads((tmp_path / "two" / "run.json").read_text())
    assert record["status"] == "interrupted"
    assert json.loads(metrics.read_text().splitlines()[-1])["step"] == record["steps"]
    # One process goes on from what two have made.
    alone([*words, "--resume", str(tmp_path / "two" / "checkpoints" / "step-00000001")])
    assert processes_of(tmp_path / "two") == 1
    assert distance(weights(tmp_path / "two", 5), weights(tmp_path / "one", 5)) < CLOSE


BROKEN = """
import os, signal
from motionkit.errors import MotionkitError
from motionkit.training.learner import Learner

descend = Learner.descend

def broken(self, update, **options):
    if update == 2 and os.environ["RANK"] in os.environ["WHO"]:
        if os.environ["HOW"] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise MotionkitError("the gradient broke.", fix="mend it.", code=1)
    return descend(self, update, **options)

Learner.descend = broken
from motionkit.cli import main
main()
"""


@pytest.mark.parametrize(
    ("how", "who", "codes", "said"),
    [
        ("raised", "1", [1, 1], "error: process 1 of 2: the gradient broke.\n  fix  mend it."),
        ("raised", "01", [1, 1], "error: the gradient broke.\n  fix  mend it."),
        ("killed", "1", [1, -9], "error: another of the 2 processes has ended, or cannot be reached."),
        ("killed", "0", [-9, 1], "error: another of the 2 processes has ended, or cannot be reached."),
    ],
)
def test_an_error_in_one_ends_both_with_one_message(
    how: str, who: str, codes: list[int], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "broken.py"
    program.write_text(BROKEN)
    monkeypatch.setenv("HOW", how)
    monkeypatch.setenv("WHO", who)
    run = tmp_path / "run"
    found = ends(start([*REGIONS, "--num-steps", "5", "--out", str(run), "-q"], run, program=str(program)))
    assert [code for code, _, _ in found] == codes
    text = "".join(err for _, _, err in found)
    assert said in text
    assert text.count("error:") == 1
    if codes[0] == 1:
        record = json.loads((run / "run.json").read_text())
        assert record["status"] == "failed"
        assert record["error"] in text


LATE = """
import time
import torch
from motionkit.training import together
from motionkit.training.launch import launch_of

world = together.join(launch_of(), "cpu")
time.sleep(3.5 * together._LOOK.total_seconds() * world.rank)
print(world.sum(torch.ones(3)).tolist(), world.gather(torch.tensor([[world.rank, 7]])).tolist())
world.close()
"""


def test_an_exchange_waits_for_a_process_that_is_late(tmp_path: Path) -> None:
    """Longer than it takes to look whether that one has ended, which leaves the exchange and the next as they are."""
    program = tmp_path / "late.py"
    program.write_text(LATE)
    found = ends(start([], tmp_path / "late", program=str(program)))
    assert found == [(0, "[2.0, 2.0, 2.0] [[0, 7], [1, 7]]\n", "")] * 2


def test_what_cannot_be_shared_is_refused_once(tmp_path: Path) -> None:
    cases = {
        "ppo": "motionkit ppo cannot be shared by 2 processes.",
        "generate": "motionkit generate is one process, and 2 were started.",
    }
    for name, said in cases.items():
        (code, _, err), other = ends(start([name, "--out", str(tmp_path / "made" / name)], tmp_path / name))
        assert (code, other) == (2, (2, "", "")), err
        assert said in err
    (code, _, err), other = ends(
        start([*REGIONS, "--batch-size", "3", "--out", str(tmp_path / "made" / "odd")], tmp_path / "odd")
    )
    assert (code, other) == (2, (2, "", ""))
    assert err.count("error: 3 regions per step cannot be shared by 2 processes.") == 1
    assert not (tmp_path / "made").exists()


def test_torchrun_starts_them(tmp_path: Path) -> None:
    """The launcher itself, with a plan that only the first process prints."""
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "motionkit", *REGIONS]
    result = subprocess.run(
        [*line, "--num-steps", "2", "--out", str(tmp_path / "run"), "--dry-run"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("plan: device = cpu") == 1
    assert not (tmp_path / "run").exists()
