"""The loop: which steps run, what is logged and saved when, and how it stops."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.runs import Run, open_run
from motionkit.training.base import Trainer
from motionkit.training.settings import CheckpointSettings, LogSettings, RunSettings, TrainerSettings
from motionkit.training.steps import Kept, State, restore, run_steps


class Counter:
    """Adds a random number in each step; a signal arrives in the step it is told."""

    def __init__(self, run: Run, signal_at: int = 0) -> None:
        self.value, self.steps, self.signal_at = torch.zeros(()), list[int](), signal_at
        if (saved := run.checkpoint()) is not None:
            restore({"model": self}, saved)
        torch.rand(7)  # building draws numbers too; the loop must not mind

    def step(self, step: int) -> Mapping[str, float]:
        self.steps.append(step)
        self.value = self.value + torch.rand(())
        if step == self.signal_at:
            os.kill(os.getpid(), signal.SIGINT)
        return {"loss/total": float(self.value)}

    def state(self) -> State:
        return State({"value": self.value})

    def load_state(self, state: State) -> None:
        self.value = state.tensors["value"]


def settings(steps: int, every: int = 2, log: int = 1) -> TrainerSettings:
    return TrainerSettings(
        run=RunSettings(num_steps=steps), checkpoint=CheckpointSettings(every=every, keep=9), log=LogSettings(every=log)
    )


def go(folder: Path, wanted: TrainerSettings, *, resume: bool = False, signal_at: int = 0) -> tuple[Counter, Run, bool]:
    torch.manual_seed(0)
    run = Run.resume(folder) if resume else Run.create("toy", wanted.model_dump(mode="json"), out=folder)
    with run:
        counter = Counter(run, signal_at)
        done = run_steps(run, wanted, counter.step, {"model": counter})
    return counter, run, done


def saved(folder: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (folder / "checkpoints").glob("step-*"))


def logged(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("every", "expected"), [(2, [2, 4, 5]), (0, [5]), (5, [5])])
def test_saves_at_the_interval_and_at_the_end(every: int, expected: list[int], tmp_path: Path) -> None:
    counter, run, done = go(tmp_path / "run", settings(5, every))
    assert (counter.steps, done, run.status, run.total_steps) == ([1, 2, 3, 4, 5], True, "done", 5)
    assert saved(tmp_path / "run") == expected


def test_logs_at_the_interval_and_at_the_end(tmp_path: Path) -> None:
    go(tmp_path / "run", settings(5, log=3))
    assert logged(tmp_path / "run") == [3, 5]


def test_a_signal_ends_it_after_the_step_with_everything_saved(tmp_path: Path) -> None:
    straight, *_ = go(tmp_path / "straight", settings(5))
    counter, run, done = go(tmp_path / "run", settings(5), signal_at=3)
    assert (counter.steps, done, run.status, run.exit_code) == ([1, 2, 3], False, "interrupted", 130)
    assert saved(tmp_path / "run") == [2, 3]
    rest, run, done = go(tmp_path / "run", settings(5), resume=True)
    assert (rest.steps, done, run.status) == ([4, 5], True, "done")
    assert torch.equal(rest.value, straight.value)


def test_a_signal_before_the_first_step_keeps_what_was_built(tmp_path: Path) -> None:
    straight, *_ = go(tmp_path / "straight", settings(3))
    torch.manual_seed(0)
    with Run.create("toy", settings(3).model_dump(mode="json"), out=tmp_path / "run") as run:
        counter = Counter(run)
        os.kill(os.getpid(), signal.SIGTERM)
        assert not run_steps(run, settings(3), counter.step, {"model": counter})
    assert (counter.steps, saved(tmp_path / "run")) == ([], [0])
    rest, *_ = go(tmp_path / "run", settings(3), resume=True)
    assert torch.equal(rest.value, straight.value)


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    go(tmp_path / "run", settings(4))
    counter, _, done = go(tmp_path / "run", settings(4), resume=True)
    assert (counter.steps, done, saved(tmp_path / "run")) == ([], True, [2, 4])
    counter, _, done = go(tmp_path / "run", settings(6), resume=True)
    assert (counter.steps, logged(tmp_path / "run")) == ([5, 6], [1, 2, 3, 4, 5, 6])


def test_a_checkpoint_of_other_parts_is_refused_in_words(tmp_path: Path) -> None:
    go(tmp_path / "run", settings(2))
    with Run.resume(tmp_path / "run") as run:
        counter, saved = Counter(run), run.checkpoint()
        assert saved is not None
        with pytest.raises(MotionkitError, match="holds no 'learner'"):
            restore({"model": counter, "learner": counter}, saved)
        restore({"model": counter, "start": Kept()}, saved)  # what has nothing to keep need not be there


class Minimal:
    """The smallest trainer there can be."""

    shape_keys: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(self, settings: TrainerSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        self.weight = torch.zeros(2)

    def describe(self) -> Mapping[str, object]:
        return {"parameters": 2}

    def train(self, run: Run) -> Mapping[str, object]:
        def step(number: int) -> Mapping[str, float]:
            self.weight += number
            return {"loss/total": -float(self.weight.sum())}

        run_steps(run, self.settings, step, {"model": Kept({"weight": self.weight})})
        return {"metrics": {"sum": float(self.weight.sum())}}


def test_prepare_describe_train_finish(tmp_path: Path) -> None:
    settings = TrainerSettings(run=RunSettings(num_steps=3, out=tmp_path / "run"))
    trainer: Trainer = Minimal(settings)
    trainer.prepare()
    assert trainer.describe() == {"parameters": 2}
    with open_run("minimal", settings.model_dump(mode="json"), shape_keys=trainer.shape_keys) as run:
        document = run.finish(trainer.train(run))
    assert (document["status"], document["steps"], document["metrics"]) == ("done", 3, {"sum": 12.0})
