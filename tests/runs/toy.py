"""A small trainer in a process of its own, for tests that kill it: `python toy.py RUN STEPS [--resume] [MODE]`.

What it has to say goes to files beside the run folder: RUN.step (the step it is in) and RUN.error.

Modes: `plain`; `slow` (a pause in every step); `small-disk`: files may not exceed a few kilobytes from step 5.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from motionkit.errors import MotionkitError
from motionkit.runs import open_run
from motionkit.training.device import seed_everything
from motionkit.training.settings import CheckpointSettings, RunSettings, TrainerSettings
from motionkit.training.steps import OptimizerState, State, Stateful, restore, run_steps


class Toy:
    """Dropout-free net, AdamW, cosine schedule, EMA, data drawn from all three global generators."""

    def __init__(self, steps: int, mode: str, progress: Path) -> None:
        torch.set_num_threads(1)
        seed_everything(3)
        self.mode, self.progress, self.seen = mode, progress, 0
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
        self.ema = {name: value.detach().clone() for name, value in self.net.state_dict().items()}
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2, weight_decay=0.1)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)

    def parts(self) -> dict[str, Stateful]:
        net, plain = self.net, {"schedule": self.schedule.state_dict, "seen": lambda: self.seen}
        return {
            "model": Part(lambda: State(net.state_dict()), lambda state: net.load_state_dict(dict(state.tensors))),
            "ema": Part(lambda: State(self.ema), lambda state: setattr(self, "ema", dict(state.tensors))),
            "optimizer": OptimizerState(self.optimizer, net),
            "toy": Part(lambda: State(values={name: get() for name, get in plain.items()}), self._restore_counters),
        }

    def _restore_counters(self, state: State) -> None:
        self.schedule.load_state_dict(state.values["schedule"])
        self.seen = state.values["seen"]

    def step(self, step: int) -> dict[str, float]:
        import random

        import numpy as np

        if self.mode == "slow":
            self.progress.write_text(str(step))
            time.sleep(0.2)
        if self.mode == "small-disk" and step == 5:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
        x = torch.randn(8, 6) + random.gauss(0, 1) + np.random.normal()
        loss = (self.net(x) - x[:, :2].sin()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.seen += len(x)
        for name, value in self.net.state_dict().items():
            self.ema[name].lerp_(value, 0.1)
        return {"loss/total": loss.item(), "optim/learning_rate": self.schedule.get_last_lr()[0]}


class Part:
    """A stateful part made of two functions."""

    def __init__(self, state: Callable[[], State], load_state: Callable[[State], object]) -> None:
        self.state, self.load_state = state, load_state


def main(arguments: list[str]) -> int:
    folder, steps, resume, mode = Path(arguments[0]), int(arguments[1]), "--resume" in arguments, arguments[-1]
    run_settings = RunSettings(
        num_steps=steps, out=None if resume else folder, overwrite=not resume, resume=folder if resume else None
    )
    settings = TrainerSettings(run=run_settings, checkpoint=CheckpointSettings(every=2, keep=2), threads=1)
    toy = Toy(8, mode, folder.with_suffix(".step"))
    run = None
    try:
        with open_run("toy", settings.model_dump(mode="json"), argv=arguments) as run:
            parts = toy.parts()
            if (saved := run.checkpoint()) is not None:
                restore(parts, saved)
            run_steps(run, settings, toy.step, parts)
            run.finish()
    except KeyboardInterrupt:
        pass
    except MotionkitError as error:
        folder.with_suffix(".error").write_text(f"{error} why {error.why} fix {error.fix}")
        return error.code
    return run.exit_code if run else 2


if __name__ == "__main__":
    raise SystemExit(main(globals().get("ARGUMENTS") or sys.argv[1:]))
