"""A trainer whose result is a formula of its settings, for tests of searches; installed by the fixture `tuned`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from motionkit.config import Group
from motionkit.contracts.search import Range, Search
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.runs import fingerprint_files
from motionkit.training.settings import TrainerSettings


class Shape(Group):
    """What is searched."""

    x: float = Field(0.2, ge=-5, le=5, description="Best at 0.7.")
    rate: float = Field(1e-3, gt=0, description="Best at 1e-2.")
    depth: int = Field(2, ge=1, description="Best at 4.")
    kind: Literal["plain", "round"] = Field("plain", description="Round is better by 0.05.")


class TunedSettings(TrainerSettings):
    """Settings of the formula."""

    shape: Shape = Shape()
    wait: float = Field(0.0, description="Seconds of a step.")
    trap: Literal["none", "diverge", "error", "crash", "refuse", "silent"] = Field(
        "none", description="What happens where x is below 0, or everywhere with trap_always."
    )
    trap_always: bool = Field(False, description="The trap is everywhere.")
    data: Path | None = Field(None, description="Must exist.")


def search(settings: BaseModel) -> Search:
    """What is searched by default."""
    space = {
        "shape.x": Range(-1.0, 1.0),
        "shape.rate": Range(1e-4, 1e-1, log=True),
        "shape.depth": Range(1, 6, whole=True),
    }
    return Search(space, value="heldout.skill.after", watch="mpl/skill", trial={"log.every": 1}, patience=1)


def value_of(shape: Shape, seed: int) -> float:
    """The value that a run reaches: 1 at the best place, with a little noise by seed."""
    away = (shape.x - 0.7) ** 2 + (math.log10(shape.rate) + 2) ** 2 / 4 + (shape.depth - 4) ** 2 / 20
    return 1.0 - away + 0.05 * (shape.kind == "round") + 0.001 * (seed % 7)


class TunedTrainer:
    """Reaches the value step by step."""

    shape_keys: ClassVar[tuple[str, ...]] = ("shape",)

    def __init__(self, settings: TunedSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        settings = self.settings
        if settings.data is not None and not settings.data.exists():
            raise MotionkitError(f"{settings.data} does not exist.")
        self.inputs = {"data": fingerprint_files(settings.data, [settings.data])} if settings.data is not None else {}
        if settings.trap == "refuse" and self._trapped():
            raise MotionkitError("x and depth do not fit together.")

    def describe(self) -> Mapping[str, object]:
        return {"device": "cpu"}

    def train(self, run: Any) -> Mapping[str, object]:
        settings = self.settings
        final = value_of(settings.shape, settings.seed)
        for step in range(run.start_step + 1, settings.run.num_steps + 1):
            if run.stop_requested:
                return {}
            time.sleep(settings.wait)
            if self._trapped() and step == 2:
                self._fall()
            diverged = settings.trap == "diverge" and self._trapped() and step > 1
            now = float("nan") if diverged else final * step / settings.run.num_steps
            run.log(step, {"mpl/skill": now})
        if run.stop_requested:
            return {}
        (run.directory / "checkpoints").mkdir(exist_ok=True)
        (run.directory / "checkpoints" / "weights").write_text("heavy")
        run.artifact("policy").mkdir(exist_ok=True)
        (run.directory / "policy" / "weights").write_text("heavy")
        if settings.trap == "silent":
            return {}
        return {"heldout": {"skill": {"before": 0.0, "after": final, "delta": final, "n": 1}}}

    def _trapped(self) -> bool:
        return self.settings.trap_always or self.settings.shape.x < 0

    def _fall(self) -> None:
        if self.settings.trap == "error":
            raise MotionkitError("the gradient has not been finite for 5 updates in a row.", code=1)
        if self.settings.trap == "crash":
            os._exit(9)


component = Component(
    summary="A formula.", options=TunedSettings, factory="tuned_trainer:TunedTrainer", search="tuned_trainer:search"
)
plain = Component(summary="A formula without a space.", options=TunedSettings, factory="tuned_trainer:TunedTrainer")
