"""Supervised training: when a model is measured, and that a stopped run goes on with the same bits."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from motionkit.runs import Run
from motionkit.training.learner import Learner, constant_rate
from motionkit.training.settings import CheckpointSettings, LogSettings, OptimSettings, RunSettings, TrainerSettings
from motionkit.training.supervised import Fit, fit

STEPS = 6


@dataclass
class Line:
    """A line through the origin, fitted to a slope of 2."""

    network: nn.Linear

    @property
    def slope(self) -> float:
        return float(self.network.weight.detach())

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.network.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self.network.load_state_dict(tensors)


def go(
    folder: Path, *, every: int = 0, ema: float = 0.0, signal_at: int = 0, near: float | None = None
) -> tuple[Fit | None, list[int], Line]:
    wanted = TrainerSettings(
        run=RunSettings(num_steps=STEPS), checkpoint=CheckpointSettings(every=2, keep=9), log=LogSettings(every=1)
    )
    torch.manual_seed(0)
    line, measured = Line(nn.Linear(1, 1, bias=False)), list[int]()
    nn.init.zeros_(line.network.weight)
    learner = Learner(line, OptimSettings(learning_rate=0.1, weight_decay=0.0), constant_rate(0.1, 0), ema=ema)

    def step(number: int) -> Mapping[str, float]:
        learner.zero_grad()
        x = torch.randn(8, 1)  # from the global generator, which a resumed run puts back
        loss = (line.network(x) - 2 * x).square().mean()
        loss.backward()
        if number == signal_at:
            os.kill(os.getpid(), signal.SIGINT)
        return {"loss/total": float(loss.detach())} | learner.descend(number - 1)

    def slope(number: int = 0) -> dict[str, float]:
        measured.append(number)
        return {"my/slope": line.slope}

    def worth(figures: Mapping[str, float]) -> float:
        return -abs(figures["my/slope"] - (near or 0.0))

    run = Run.resume(folder) if folder.exists() else Run.create("toy", wanted.model_dump(mode="json"), out=folder)
    with run:
        result = fit(run, wanted, learner, step, measure=slope, every=every, before=slope,
                     worth=None if near is None else worth)  # fmt: skip
    return result, measured, line


def test_it_is_measured_before_at_the_interval_and_after_the_last_step(tmp_path: Path) -> None:
    result, measured, line = go(tmp_path / "run", every=4)
    assert measured == [0, 4, STEPS]
    assert result is not None
    assert result.before == {"my/slope": 0.0}
    assert result.after == {"my/slope": line.slope}
    assert 0.4 < result.after["my/slope"] < 0.7  # AdamW moves by the learning rate, 0.1 a step
    lines = [json.loads(text) for text in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in lines if "my/slope" in row] == [4, STEPS]


def test_the_moving_average_is_what_is_measured(tmp_path: Path) -> None:
    result, _, line = go(tmp_path / "run", ema=0.99)
    assert result is not None
    assert 0 < result.after["my/slope"] < line.slope


def test_a_stopped_run_gives_nothing_and_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    straight, _, whole = go(tmp_path / "straight")
    stopped, measured, _ = go(tmp_path / "run", signal_at=3)
    assert (stopped, measured) == (None, [0])
    resumed, measured, line = go(tmp_path / "run")
    assert measured == [STEPS]  # what was measured before training is in the checkpoint
    assert resumed == straight
    assert torch.equal(line.network.weight, whole.network.weight)


def test_a_run_that_is_resumed_after_its_last_step_is_measured_again(tmp_path: Path) -> None:
    first, *_ = go(tmp_path / "run")
    again, measured, _ = go(tmp_path / "run")
    assert measured == [STEPS]
    assert again == first


def test_the_weights_that_were_worth_most_are_kept_and_are_in_the_checkpoint(tmp_path: Path) -> None:
    straight, _, line = go(tmp_path / "straight", every=1, near=0.3)  # 0.1 a step: reached in the third
    assert straight is not None
    assert straight.best.step == 3
    assert 0.25 < float(straight.best.tensors["weight"]) < 0.35 < line.slope
    go(tmp_path / "run", every=1, near=0.3, signal_at=4)
    resumed, measured, _ = go(tmp_path / "run", every=1, near=0.3)
    assert measured == [5, STEPS]  # neither is better than the third, which the stopped process measured
    assert resumed is not None
    assert (resumed.best.step, resumed.best.value) == (3, straight.best.value)
    assert torch.equal(resumed.best.tensors["weight"], straight.best.tensors["weight"])
