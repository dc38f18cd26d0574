"""A trainer that counts, for tests of the command that runs every trainer; installed by the fixture `trainer`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from motionkit.config import Chosen, Cli, slot, slots
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.training.base import Checked
from motionkit.training.settings import TrainerSettings


class CountSettings(TrainerSettings):
    """Settings of the counting trainer."""

    reward: tuple[Chosen, ...] = slots("rewards", ("near",))
    policy: Chosen = slot("policies", "small")
    check: Annotated[bool, Cli("--check")] = Field(False, description="Check and end.")
    data: Annotated[Path | None, Cli("--data")] = Field(None, description="A file that must exist.")
    end: Annotated[Literal["well", "error", "bug", "disk", "interrupt", "terminate", "nan"], Cli("--end")] = Field(
        "well", description="How it ends [of all ways]."
    )
    width: Annotated[int | str, Cli("--width")] = Field(4, description="A number or a word.")


class CountTrainer:
    """Adds one to a tensor at each step."""

    shape_keys: ClassVar[tuple[str, ...]] = ("width",)

    def __init__(self, settings: CountSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        if self.settings.data is not None and not self.settings.data.exists():
            raise MotionkitError(f"{self.settings.data} does not exist.", why="it is the data.", fix="give --data FILE")

        if self.settings.data is not None:
            self.settings.data.read_bytes()

    def check(self) -> Iterator[Checked]:
        gap = float("nan") if self.settings.end == "nan" else 0.5
        yield Checked("the mask is read", gap != 0, f"scores move by {gap:.2g} with the mask")

    def describe(self) -> Mapping[str, object]:
        return {"parameters": 1}

    def train(self, run: Any) -> Mapping[str, object]:
        import torch

        checkpoint = run.checkpoint()
        count = checkpoint.tensors["model"]["count"] if checkpoint else torch.zeros(1)
        step = run.start_step
        while step < self.settings.run.num_steps and not run.stop_requested:
            step += 1
            count = count + 1
            loss = float("inf") if self.settings.end == "nan" and step in (2, 3) else 1.0 / step
            run.log(step, {"loss/total": loss, "reward/near/mean": float("nan")})
            if step == 2:
                self._end(run)
        run.save(step, {"model": {"count": count}}, {})
        return {
            "metrics": {"count": float(count)},
            "table": {"title": "Counted", "columns": ["what", "value"], "rows": [["count", float(count)]]},
        }

    def _end(self, run: Any) -> None:
        if self.settings.end == "error":
            raise MotionkitError("the numbers ran out.", why="there were two.", fix="count less.")
        if self.settings.end == "bug":
            raise ZeroDivisionError("a bug")
        if self.settings.end == "disk":
            raise OSError(28, "No space left on device", str(run.directory / "metrics.jsonl"))
        if self.settings.end in ("interrupt", "terminate"):
            os.kill(os.getpid(), signal.SIGINT if self.settings.end == "interrupt" else signal.SIGTERM)


component = Component(summary="Count.", options=CountSettings, factory="sample_trainer:CountTrainer")
