"""A small trainer in a process of its own, for tests that kill it: `python toy.py RUN STEPS [--resume] [MODE]`.

What it has to say goes to files beside the run folder: RUN.step (the step it is in) and RUN.error.

Modes: `plain`; `slow` (a pause in every step); `die-tensors`, `die-rename`, `die-last`: kill -9 itself
inside the saving of step 6, after the named part; `small-disk`: files may not exceed a few kilobytes from step 5.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

from motionkit.config import CheckpointSettings, RunSettings, TrainerSettings
from motionkit.errors import MotionkitError
from motionkit.runs import Run, _save, flatten_optimizer, open_run, restore_optimizer
from motionkit.trainers._device import seed_everything
from motionkit.trainers._loop import run_steps


def die_after(module: object, name: str, when: int) -> None:
    """Let the `when`-th call of a function be the last thing this process does."""
    original, calls = getattr(module, name), [0]

    def deadly(*arguments: object, **options: object) -> object:
        result = original(*arguments, **options)
        calls[0] += 1
        if calls[0] == when:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, name, deadly)


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

    def restore(self, run: Run) -> None:
        saved = run.checkpoint()
        if saved is None:
            return
        self.net.load_state_dict(dict(saved.tensors["model"]))
        self.ema = dict(saved.tensors["ema"])
        restore_optimizer(self.optimizer, saved.tensors["optimizer"], saved.state["optimizer"], self.net)
        self.schedule.load_state_dict(saved.state["schedule"])
        self.seen = saved.state["seen"]

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

    def state(self) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, object]]:
        tensors, options = flatten_optimizer(self.optimizer, self.net)
        groups = {"model": self.net.state_dict(), "ema": self.ema, "optimizer": tensors}
        return groups, {"optimizer": options, "schedule": self.schedule.state_dict(), "seen": self.seen}


def main(arguments: list[str]) -> int:
    folder, steps, resume, mode = Path(arguments[0]), int(arguments[1]), "--resume" in arguments, arguments[-1]
    # Saves happen at steps 2, 4, 6: the third save of a process that starts fresh is that of step 6.
    if mode == "die-tensors":
        die_after(_save, "sync_file", 4 + 4 + 2)
    elif mode == "die-rename":
        die_after(_save, "_swap", 3)
    elif mode == "die-last":
        die_after(_save, "prune", 3)
    run_settings = RunSettings(num_steps=steps, out=None if resume else folder, overwrite=not resume, resume=folder if resume else None)
    settings = TrainerSettings(run=run_settings, checkpoint=CheckpointSettings(every=2, keep=2), threads=1)
    toy = Toy(8, mode, folder.with_suffix(".step"))
    run = None
    try:
        with open_run("toy", settings.model_dump(mode="json"), argv=arguments) as run:
            toy.restore(run)
            run_steps(run, settings, toy.step, toy.state)
            run.finish()
    except KeyboardInterrupt:
        pass
    except MotionkitError as error:
        folder.with_suffix(".error").write_text(f"{error} why {error.why} fix {error.fix}")
        return error.code
    return run.exit_code if run else 2


if __name__ == "__main__":
    raise SystemExit(main(globals().get("ARGUMENTS") or sys.argv[1:]))
