"""Trainer 'demo': the heavy half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from motionkit.runs import Run
from motionkit.training.steps import Kept, restore, run_steps
from torch import Tensor

from motionkit_trainer_demo import Settings


class DemoTrainer:
    """An example to replace: fits y = a x to y = 2 x."""

    shape_keys: ClassVar[tuple[str, ...]] = ("rate", "seed")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open every input here: what is wrong with one is said before there is a run folder."""

    def describe(self) -> Mapping[str, object]:
        """Return the plan that --dry-run prints."""
        return {"parameters": 1}

    def train(self, run: Run) -> Mapping[str, object]:
        """Train from the step the run is at; the same seed gives the same run, also after a resume."""
        model = Kept({"factor": torch.zeros(1)})  # a network: ModelState and OptimizerState, or a Learner
        parts = {"model": model}
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)

        def step(number: int) -> Mapping[str, float]:
            loss, factor = self._update(model.tensors["factor"], number)
            model.tensors = {"factor": factor}
            return {"loss/total": loss}

        run_steps(run, self.settings, step, parts)  # logs, saves at the intervals of the settings, stops when asked
        return {"metrics": {"factor": float(model.tensors["factor"])}}

    def _update(self, factor: Tensor, step: int) -> tuple[float, Tensor]:
        x = torch.randn(32, generator=torch.Generator().manual_seed(self.settings.seed * 1_000_003 + step))
        wrong = factor * x - 2.0 * x
        return float(wrong.square().mean()), factor - self.settings.rate * 2.0 * (wrong * x).mean()
