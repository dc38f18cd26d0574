"""Rewards and learning rates that end in numbers that are none, as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from .conftest import DATA, SHAPE

Cli = Callable[..., Result]

SOURCE = """
import torch
from motionkit.config import Group
from motionkit.plugins import Component
from motionkit.contracts.reward import RewardScores


class Options(Group):
    kind: str = "nan"


class Odd:
    name = "odd"

    def __init__(self, options, **_):
        self.kind, self.calls = options.kind, 0

    def score(self, motions, prompts):
        self.calls += 1
        total = motions.lengths * 1.0
        if self.kind == "none":
            return None
        if self.kind == "nan" or self.calls > 4:  # before the first step: the trial, reference clips, held-out motions
            total = total * torch.nan
        return RewardScores(total)


component = Component(summary="Odd.", options=Options, factory="odd_reward:Odd")
"""


@pytest.fixture(autouse=True)
def _odd(site: Any) -> None:
    """Install a reward that misbehaves."""
    site.install("odd-reward", "[motionkit.rewards]\nodd = odd_reward:component\n", odd_reward=SOURCE)


def failed(result: Result, *words: str) -> None:
    assert result.exit_code == 1, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in " ".join(result.stderr.split())


@pytest.mark.parametrize("heldout", [4, 0])
@pytest.mark.parametrize("company", [(), ("--reward", "tmr-dense")])
def test_a_reward_without_any_finite_score(tiny: Any, cli: Cli, heldout: int, company: tuple[str, ...]) -> None:
    words = tiny.grpo("run", "--set", f"heldout.prompts={heldout}")
    at = words.index("--reward")
    del words[at + 1]
    if not company:
        place = words.index("--reward.weights")
        del words[place : place + 2]
    result = cli(*words[:at], "--reward", "odd", *company, *words[at + 1 :])
    what = "8 held-out motions" if heldout else "4 motions of the first step"
    failed(result, f"the reward odd gave none of the {what} a finite score")
    record = json.loads(Path("run/run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("failed", 1)


def test_a_reward_that_falls_silent_is_left_out_with_an_alarm(tiny: Any, cli: Cli) -> None:
    result = cli(
        *tiny.grpo("run", "--reward", "odd", "--reward.kind", "late", "--set", "heldout.all_steps=off", "--json")
    )
    assert result.exit_code == 0, result.stderr
    assert "the reward odd gave no sample a finite score" in " ".join(result.stderr.split())
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [line.get("reward/left_out") for line in lines[1:]] == [0.0, 1.0, 1.0]
    assert all(line["reward/mean"] is not None for line in lines[1:])
    assert json.loads(result.stdout)["heldout"]["reward"]["n"] == 0


def test_a_learning_rate_beyond_reason(tiny: Any, cli: Cli) -> None:
    result = cli(*tiny.grpo("run", "--learning-rate", "1e30", steps=8))
    failed(result, "the gradient has not been finite", "--learning-rate below 1e+30")


@pytest.mark.parametrize("command", ["mdm", "tmr"])
def test_a_learning_rate_beyond_reason_while_pretraining(command: str, cli: Cli) -> None:
    more = ("--set", "model.diffusion_steps=10") if command == "mdm" else ()
    result = cli(
        "pretrain", command, *DATA, *SHAPE, *more, "--batch-size", 16, "--set", "train.val_clips=40", "--num-steps", 8,
        "--set", "optim.warmup_steps=0", "--set", "train.val_every=1", "--learning-rate", "1e30", "--out", "run",
    )  # fmt: skip
    failed(result, "the gradient has not been finite", "--learning-rate below 1e+30")
