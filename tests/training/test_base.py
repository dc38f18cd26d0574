"""A trainer that follows the protocol, through its whole life."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import torch

from motionkit.config import RunSettings, TrainerSettings
from motionkit.runs import Run, open_run
from motionkit.training.base import Trainer
from motionkit.training.steps import Kept, run_steps


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
