"""What is said of how far a command is, and of how long it will take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit import plugins
from motionkit.cli import progress
from motionkit.tracking import definition
from motionkit.training.base import LOSS, REWARD, Figure

Cli = Callable[..., Result]


class Clock:
    """A clock that a test sets, and what was said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress.time, "monotonic", lambda: found.now)
    monkeypatch.setattr(progress, "is_terminal", lambda: False)
    monkeypatch.setattr(progress.output, "say", found.said.append)
    return found


class Heard:
    """A run as `follow` sees it."""

    total_steps, start_step = 300, 0

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.beginning: list[Any] = []


def test_a_long_command_says_so_once_and_early(clock: Clock) -> None:
    with progress.bar("eval", total=100) as step:
        clock.now = 5.0  # the first step compiles, reads, warms up
        step()
        for clock.now in (6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0):
            step()
            assert clock.said == []
        clock.now = 13.0
        step()
        assert clock.said[-1] == "eval: about 2 min"
        for _ in range(20):
            clock.now += 1.0
            step()
    assert sum("about" in line for line in clock.said) == 1


def test_the_time_that_is_left_is_told_by_the_sizes_of_what_is_left(clock: Clock) -> None:
    sizes = [1.0] * 50 + [4.0] * 50  # files are sorted by name, and the later ones are long
    with progress.bar("convert", total=100, sizes=sizes) as step:
        for size in sizes:
            clock.now += size
            step()
    assert clock.said[0] == "convert: about 4 min", "of 250 s, at one second a file so far"
    (line,) = [line for line in clock.said if " 65/100 " in line]
    assert line.endswith("eta 2:20"), "35 files of 4 s"
    clock.said.clear()
    with progress.bar("convert", total=100) as step:
        for size in sizes:
            clock.now += size
            step()
    assert clock.said[0] == "convert: about 2 min", "by their number, which is what is wrong"


@pytest.mark.parametrize(("seconds", "words"), [(0.5, []), (3.0, ["about 5 min"])])
def test_only_what_takes_over_a_minute_is_told(clock: Clock, seconds: float, words: list[str]) -> None:
    with progress.bar("eval", total=100) as step:
        for _ in range(20):
            clock.now += seconds
            step()
    assert [line.removeprefix("eval: ") for line in clock.said if "about" in line] == words
    first = next((line for line in clock.said if "about" in line), "")
    assert not first or clock.said[0] == first  # before any other line


def test_the_start_of_workers_counts_for_no_rate(clock: Clock) -> None:
    """The first clips of two workers took 50 and 60 s, which was their start; the other twelve took 24 s together."""
    with progress.bar("convert", total=14, slow_start=2) as step:
        for now in (50.0, 60.0, *(60.0 + 2 * place for place in range(1, 12))):
            clock.now = now
            step()
    assert not any("about" in line for line in clock.said)
    assert clock.said[0] == "convert  1/14"
    assert "0.50/s  eta 0:" in clock.said[1]
    with progress.bar("convert", total=100, slow_start=1) as step:
        clock.now += 100.0
        for _ in range(5):
            clock.now += 5.0
            step()
    assert "convert: about 8 min" in clock.said  # 98 more at 5 s each


def test_nothing_is_told_of_the_first_step_alone(clock: Clock) -> None:
    """It carries the start-up: `view` said "about 3.1 h" of two minutes, `compose` "about 15 min" of 33 s."""
    with progress.bar("view", total=218) as step:
        for now in (51.0, *(51.0 + place for place in range(1, 218))):
            clock.now = now
            step()
            if now == 51.0:
                assert clock.said == ["view   1/218"]
    assert [line for line in clock.said if "about" in line] == ["view: about 3 min"]
    etas = [line.partition("eta ")[2] for line in clock.said if "eta" in line]
    assert etas
    assert all(int(eta.split(":")[0]) < 4 for eta in etas)


def test_the_last_line_has_the_rate_of_the_whole_work(clock: Clock) -> None:
    with progress.bar("convert", total=14, slow_start=2) as step:
        for now in (50.0, 60.0, *(60.0 + 2 * place for place in range(1, 12)), 84.0):
            clock.now = now
            step(note="clip")
    assert clock.said[-1] == "convert 14/14  clip  0.17/s"
    assert "0.50/s  eta" in clock.said[-2]


def test_one_figure_takes_the_place_of_another(clock: Clock) -> None:
    shown = (
        Figure("skill", ("mpl/skill",), instead_of=("loss",)), LOSS,
        Figure("horizon", ("freerun/horizon",), count=True),
    )  # fmt: skip
    run = Heard()
    with progress.follow(run, "train-mpl", shown):
        run.beginning[0]()
        for at in range(1, 7):
            clock.now += 16.0
            skill = {"mpl/skill": 0.25 + 0.001 * at} if at in (3, 5) else {}
            run.listeners[0](at, {"loss/total": 0.2 + 0.01 * at, "freerun/horizon": 2.0 * at, **skill})
    lines = [line for line in clock.said if "about" not in line]
    assert lines[1] == "train-mpl   2/300  loss 0.215  horizon 4  0.06/s  eta 1:19:28"
    assert lines[2] == "train-mpl   3/300  skill 0.253  horizon 6  0.06/s  eta 1:19:12"
    assert lines[5].split("  ")[1] == " 6/300"
    assert "skill 0.255" in lines[5]
    assert "loss" not in lines[5]


def test_the_time_before_the_first_step_counts_for_no_rate(clock: Clock) -> None:
    run = Heard()
    with progress.follow(run, "ppo", (REWARD,)):
        clock.now = 500.0  # held-out episodes before training
        run.beginning[0]()
        for at in range(1, 41):
            clock.now += 0.5
            run.listeners[0](at, {"reward/mean": 1.0})
    assert "2.00/s" in clock.said[-1]


def test_steps_that_prepare_settles_are_the_total(
    cli: Cli, trainer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(self: Any) -> None:
        self.settings = self.settings.model_copy(update={"run": self.settings.run.model_copy(update={"num_steps": 7})})

    monkeypatch.setattr(trainer.CountTrainer, "prepare", prepare)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    found = cli("count", "--out", "run")
    assert found.exit_code == 0, found.stderr
    assert "count 3/7  loss" in found.stderr
    assert "3/7" in Path("run/log.txt").read_text()


@pytest.mark.parametrize("name", [entry.name for entry in plugins.available("trainers") if entry.builtin])
def test_what_trainers_show_are_metrics(name: str) -> None:
    component = plugins.get("trainers", name)
    figures = plugins.build("trainers", component, component.options()).figures
    assert figures
    assert all(definition(metric) for one in figures for metric in one.metrics)
    labels = [one.label for one in figures]
    assert len(set(labels)) == len(labels)
    assert all(label in labels for one in figures if one is not REWARD for label in one.instead_of)
