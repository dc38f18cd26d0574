"""`motionkit runs`: results in listings, one run in words, several side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit.cli import progress
from motionkit.runs import open_run
from motionkit.training.base import LOSS, REWARD, Figure

Cli = Callable[..., Result]


def block(delta: float) -> dict[str, object]:
    return {"before": 0.5, "after": 0.5 + delta, "delta": delta, "ci95": [delta - 0.05, delta + 0.05], "n": 64}


def make(name: str, *, delta: float = 0.1, rate: float = 0.1, steps: int = 30) -> None:
    with open_run("grpo", {"run": {"name": name, "num_steps": 60}, "optim": {"learning_rate": rate}}) as run:
        for step in range(1, steps + 1):
            run.log(step, {"reward/mean": 0.5 + step / 100, "loss/total": 1.0})
        run.finish({"heldout": {"reward": block(delta), "skate": block(0.2)}})


def test_a_listing_has_the_result(cli: Cli) -> None:
    make("one")
    make("two", delta=0.01)
    shown = cli("runs", "list").stdout
    assert "reward +0.100 better" in shown
    assert "reward +0.010 no change" in shown
    rows = json.loads(cli("runs", "list", "--json").stdout)["runs"]
    assert {row["name"]: Path(row["run"]).name for row in rows} == {"one": "one", "two": "two"}


def test_a_run_is_shown_with_its_result_by_the_last_part_of_its_name(cli: Cli) -> None:
    make("one")
    make("two", delta=-0.1)
    shown = cli("runs", "show", "one").stdout
    assert "The reward rose from 0.500 to 0.600" in shown
    assert "reward   0.51" in shown
    assert "▁" in shown
    assert "█" in shown
    assert "Last metrics" not in shown
    assert "Last metrics" in cli("runs", "show", "one", "--metrics").stdout
    rows = {line.split()[0]: line.split()[-1] for line in shown.splitlines() if "+0.050" in line or "+0.150" in line}
    assert rows["reward"] == "better"
    assert rows["skate"] == "worse"
    newest = cli("runs", "show").stdout
    assert "The reward fell" in newest
    assert cli("runs", "show", "--root", "nowhere").exit_code == 2


def test_a_run_that_is_going_on_shows_its_step(cli: Cli) -> None:
    with open_run("grpo", {"run": {"name": "now", "num_steps": 60}}) as run:
        run.log(7, {"reward/mean": 0.5})
        listed = [line.split() for line in cli("runs", "list").stdout.splitlines() if "now" in line]
        assert listed[0][1:3] == ["running", "7/60"]
        assert "7/60" in cli("runs", "show", "now").stdout


def test_runs_are_compared_with_the_settings_that_differ(cli: Cli) -> None:
    make("one")
    make("two", delta=0.3, rate=0.2)
    shown = cli("runs", "compare", "one", "two").stdout
    assert "0.600 (+0.100, better)" in shown
    assert "0.800 (+0.300, better)" in shown
    assert "optim.learning_rate" in shown
    document = json.loads(cli("runs", "compare", "one", "two", "--json").stdout)
    assert document["settings"]["optim.learning_rate"] == ["0.1", "0.2"]
    assert [run["heldout"]["reward"]["delta"] for run in document["runs"]] == [0.1, 0.3]
    alone = cli("runs", "compare", "one")
    assert alone.exit_code == 2
    assert "two runs or more" in alone.stderr


class Listened:
    """A run as `follow` sees it."""

    total_steps, start_step = 100, 0

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.beginning: list[Any] = []


def test_progress_shows_smoothed_numbers_and_times_steps_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    told: list[str] = []
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "is_terminal", lambda: False)
    monkeypatch.setattr(progress.output, "say", told.append)
    run = Listened()
    with progress.follow(run, "grpo", (REWARD, LOSS, Figure("held out", ("heldout/reward/delta",), change=True))):
        now[0] = 500.0  # measured before training
        run.listeners[0](0, {"heldout/reward/delta": 0.0})
        assert told == ["grpo   0/100"]
        for step in range(1, 41):
            now[0] += 0.5
            point = {"heldout/reward/delta": 0.125} if step == 20 else {}
            run.listeners[0](step, {"reward/mean": float(step), "loss/total": -1.0, **point})
    assert told[1] == "grpo  30/100  reward 20.500  held out +0.125  2.00/s  eta 0:35"
    assert len(told) == 2
